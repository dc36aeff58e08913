#pragma once

#include <memory>
#include <vector>

#include "gpu_model/runtime/pinned.h"
#include "gpu_model/runtime/races.h"

namespace gpu_model {

struct Operation;

/// The memory that an operation of a graph uses, as it was at the capture: at a launch its addresses may
/// belong to other allocations.
struct UsedMemory {
  struct Pinned {
    std::uintptr_t begin;
    PinnedMemory::Allocation allocation;
  };
  std::vector<std::shared_ptr<const BlockHistory>> allocations;
  std::vector<Pinned> pinned;
};

UsedMemory used_memory(const Operation& operation);

/// Reports each piece of the memory that has been freed since the capture; true if there is one.
bool report_freed(const UsedMemory& used, const Access& access);

}  // namespace gpu_model
