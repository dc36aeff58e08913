#pragma once

#include <functional>
#include <vector>

#include "gpu_model/nccl/call.h"
#include "gpu_model/nccl/transfer.h"

namespace gpu_model::nccl {

/// Transfers that go on at the same time, and what the rank does when they are done.
struct Step {
  std::vector<Transfer> transfers;
  std::function<void()> then;
};

/// The steps of a collective on a rank. Every rank sends to and receives from the others directly, but
/// elements are combined in the order in which a ring would: what ends on rank r begins with rank r + 1's
/// element, to which those of ranks r + 2, ... and at last r are added one by one. An all-reduce is cut into
/// as many equal parts as there are ranks (the last may be shorter), of which part r ends on rank r. NCCL
/// cuts it for its channels once more and may use trees, whose order is another.
std::vector<Step> steps_of(const Call& call, int ranks, int rank);

}  // namespace gpu_model::nccl
