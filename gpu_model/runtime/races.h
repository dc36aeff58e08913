#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu_model/runtime/access_record.h"
#include "gpu_model/runtime/clock.h"

/// Detection of unordered accesses. Two operations that access the same bytes, one of them writing, must be
/// ordered by their stream, by events or by the host's waits; the order in which they ran does not matter.
namespace gpu_model {

struct Node;

/// An operation that has accessed a block of device memory.
struct Access {
  Stamp stamp;
  int stream = 0;
  std::string name;
  const void* caller = nullptr;
  std::uintptr_t begin = 0, end = 0;  ///< the bytes; equal if they are not known
  bool writes = false;
  std::shared_ptr<const Clock> clock;  ///< the operation's; null where its ranges are not exact
};

/// The accesses to a block since its allocation that the host has not waited for.
struct BlockHistory {
  std::uint64_t number = 0;   ///< of the allocation
  std::size_t requested = 0;  ///< bytes
  std::uintptr_t begin = 0;
  Access allocated{};
  std::vector<Access> accesses{};
};

/// Reports what an operation touches without being ordered after others, and notes that it does. For kernels,
/// whose bytes are not known, that is memory which was not allocated before, or which is freed while they may
/// use it; for copies, fills and library calls the bytes themselves.
void check_accesses(const std::shared_ptr<Node>& node);

/// The same for the bytes that a kernel was seen to touch when it ran, in the allocations of its arguments.
void check_touched(const std::shared_ptr<Node>& node, const std::vector<Touched>& touched);

/// RINGTAPE_MODEL_RACES=exact: whether kernels' accesses are recorded.
bool knows_kernels_bytes();

}  // namespace gpu_model
