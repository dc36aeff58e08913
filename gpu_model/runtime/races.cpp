#include "gpu_model/runtime/races.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpu_model/runtime/state.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

namespace gpu_model {
namespace {

constexpr std::size_t kManyAccesses = 32;

std::string text_of(const Access& access) {
  return access.name + " on stream " + std::to_string(access.stream) + " (queued in " +
         place_of(access.caller) + ")";
}

void report_race(const Block& block, const Access& earlier, const Access& later) {
  const bool knows_bytes = earlier.begin != earlier.end && later.begin != later.end;
  const std::uintptr_t begin = std::max(earlier.begin, later.begin), end = std::min(earlier.end, later.end);
  report(text_of(later) + " is not ordered after " + text_of(earlier) + ":\n  both touch " +
         (knows_bytes ? std::to_string(end - begin) + " bytes of " : "") + "allocation #" +
         std::to_string(block.number) + " (" + std::to_string(block.asked_for) + " bytes). Stream " +
         std::to_string(later.stream) + " has to wait for an event recorded on stream " +
         std::to_string(earlier.stream) + " after it");
}

bool overlap(const Access& a, const Access& b) {
  return a.begin < b.end && b.begin < a.end;
}

Access access_of(const Node& node) {
  return {node.stamp, node.stream, node.operation->name, node.operation->caller, 0, 0, false};
}

/// The operation accesses these bytes or, if `range` is empty, an unknown part of the block.
void touch(const Node& node, const Range& range, bool writes, bool knows_bytes) {
  Block* const block = live_block(range.begin, 0);
  if (block == nullptr || block->in_graph) return;
  Access access = access_of(node);
  access.writes = writes;
  if (knows_bytes) {
    access.begin = reinterpret_cast<std::uintptr_t>(range.begin);
    access.end = access.begin + range.bytes;
  }
  BlockHistory& history = block->history;
  if (!node.clock.knows(history.allocated.stamp)) report_race(*block, history.allocated, access);
  std::vector<Access>& all = history.accesses;
  for (const Access& earlier : all) {
    if (knows_bytes && overlap(earlier, access) && (earlier.writes || writes) &&
        !node.clock.knows(earlier.stamp)) {
      report_race(*block, earlier, access);
    }
  }
  // Operations after this access are also after the accesses that it replaces.
  std::erase_if(all, [&](const Access& earlier) {
    return earlier.stamp.lane == access.stamp.lane && earlier.begin == access.begin &&
           earlier.end == access.end && (writes || !earlier.writes);
  });
  if (all.size() > kManyAccesses) {
    std::erase_if(all, [](const Access& earlier) { return state().host.knows(earlier.stamp); });
  }
  all.push_back(std::move(access));
}

/// The memory is freed: the free must be ordered after all accesses.
void release(const Node& node, const Range& range) {
  Block* const block = live_block(range.begin, 0);
  if (block == nullptr || block->in_graph) return;
  const Access access = access_of(node);
  BlockHistory& history = block->history;
  if (!node.clock.knows(history.allocated.stamp)) report_race(*block, history.allocated, access);
  for (const Access& earlier : history.accesses) {
    if (!node.clock.knows(earlier.stamp)) report_race(*block, earlier, access);
  }
  history = {};
}

void allocate(const Node& node, const Range& range) {
  Block* const block = live_block(range.begin, 0);
  if (block != nullptr) block->history = {access_of(node), {}};
}

bool read_setting() {
  const char* const text = std::getenv("RINGTAPE_MODEL_RACES");
  if (text == nullptr || std::strcmp(text, "allocations") == 0) return true;
  if (std::strcmp(text, "off") == 0) return false;
  std::fprintf(stderr, "gpu model: RINGTAPE_MODEL_RACES=%s: expected allocations or off\n", text);
  std::_Exit(2);
}

}  // namespace

bool finds_races() {
  static const bool is_on = read_setting();
  return is_on;
}

void check_accesses(const Node& node) {
  if (!finds_races()) return;
  const Operation& operation = *node.operation;
  switch (operation.kind) {
    case Kind::allocation:
      return allocate(node, operation.writes[0]);
    case Kind::release:
      return release(node, operation.writes[0]);
    default:
      break;
  }
  for (const Range& range : operation.allocations) touch(node, range, true, false);
  for (const Range& range : operation.reads) touch(node, range, false, true);
  for (const Range& range : operation.writes) touch(node, range, true, true);
}

}  // namespace gpu_model
