#include "gpu_model/runtime/used_memory.h"

#include "gpu_model/runtime/engine.h"
#include "gpu_model/runtime/state.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

namespace gpu_model {

UsedMemory used_memory(const Operation& operation) {
  UsedMemory used;
  for (const auto* const ranges : {&operation.allocations, &operation.reads, &operation.writes}) {
    for (const Range& range : *ranges) {
      if (const auto history = history_at(range.begin); history != nullptr) {
        used.allocations.push_back(history);
      } else if (const auto [begin, pinned] = state().pinned.find(range.begin, range.bytes);
                 pinned != nullptr) {
        used.pinned.push_back({begin, *pinned});
      }
    }
  }
  return used;
}

bool report_freed(const UsedMemory& used, const Access& access) {
  bool found = false;
  const BlockHistory* reported = nullptr;
  for (const auto& allocation : used.allocations) {
    const auto current = history_at(reinterpret_cast<const void*>(allocation->begin));
    const bool is_same = current != nullptr && current->number == allocation->number;
    // A graph's own memory is checked in the order of the launch.
    if (is_same && (current->in_graph || current->freed.name.empty())) continue;
    found = true;
    if (allocation.get() != reported) report_freed_use(access, *allocation);
    reported = allocation.get();
  }
  for (const auto& [begin, pinned] : used.pinned) {
    const PinnedMemory::Allocation* const current =
        state().pinned.find(reinterpret_cast<const void*>(begin), 0).second;
    if (current != nullptr && current->number == pinned.number) continue;
    found = true;
    report(describe(access) + " uses memory that has been freed:\n  pinned memory (" +
           std::to_string(pinned.bytes) + " bytes, cudaMallocHost in " + place_of(pinned.caller) + ")");
  }
  return found;
}

}  // namespace gpu_model
