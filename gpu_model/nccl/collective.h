#pragma once

#include <functional>
#include <vector>

#include "gpu_model/nccl/call.h"
#include "gpu_model/nccl/transfer.h"

namespace gpu_model::nccl {

/// Concurrent transfers, and the rank's work after their completion.
struct Step {
  std::vector<Transfer> transfers;
  std::function<void()> then;
};

/// The steps of a collective on a rank. Every rank sends to and receives from the others directly, but
/// elements are combined in the order of a ring: the result on rank r begins with rank r + 1's element, to
/// which the elements of ranks r + 2, ... and finally r are added one by one. An all-reduce is divided into
/// one equal part for each rank (the last ones may be shorter, or empty); the sum of part r is computed on
/// rank r. NCCL also divides it among its channels and may use trees, which have another order.
std::vector<Step> steps_of(const NcclCall& call, int ranks, int rank);

}  // namespace gpu_model::nccl
