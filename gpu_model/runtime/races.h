#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
};

/// The accesses to a block since its allocation that the host has not waited for.
struct BlockHistory {
  Access allocated;
  std::vector<Access> accesses;
};

/// Reports accesses of an operation that are not ordered after earlier ones, and records its accesses. For
/// kernels, whose bytes are not known, it checks that memory is allocated before and not freed while they may
/// use it; for copies, fills and library calls it checks the bytes themselves.
void check_accesses(const Node& node);

/// RINGTAPE_MODEL_RACES: false if it is off.
bool finds_races();

}  // namespace gpu_model
