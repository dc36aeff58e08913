#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_model/runtime/clock.h"

/// Accesses that nothing orders. Two operations that touch the same bytes, one of them writing, must be
/// ordered by their stream, by events or by the host's waits; how they happened to run does not matter.
namespace gpu_model {

struct Node;

/// An operation that has touched a block of device memory.
struct Access {
  Stamp stamp;
  int stream = 0;
  std::string name;
  const void* caller = nullptr;
  std::uintptr_t begin = 0, end = 0;  ///< the bytes; equal where they are not known
  bool writes = false;
};

/// What has touched a block since it was allocated, as far as the host has not waited for it.
struct BlockHistory {
  Access allocated;
  std::vector<Access> accesses;
};

/// Reports what an operation touches without being ordered after others, and notes that it does. For kernels,
/// whose bytes are not known, that is memory which was not allocated before, or which is freed while they may
/// use it; for copies, fills and library calls the bytes themselves.
void check_accesses(const Node& node);

/// RINGTAPE_MODEL_RACES: false where it is off.
bool finds_races();

}  // namespace gpu_model
