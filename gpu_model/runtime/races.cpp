#include "gpu_model/runtime/races.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "gpu_model/runtime/state.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

namespace gpu_model {
namespace {

constexpr std::size_t kManyAccesses = 32;

/// The wait that would order the two, as a sentence.
std::string missing_wait(const Access& earlier, const Access& later) {
  const bool in_one_launch = later.launch != 0 && later.launch == earlier.launch;
  const int waits = in_one_launch ? later.captured_in : later.stream;
  const int recorded = in_one_launch ? earlier.captured_in : earlier.stream;
  return std::string(in_one_launch ? "The graph has no edge between them: during the capture, stream "
                                   : "Stream ") +
         std::to_string(waits) + " has to wait for an event recorded on stream " + std::to_string(recorded) +
         " after it";
}

/// Two operations may touch the same bytes of an allocation several times, but are reported once.
void report_race(BlockHistory& block, const Access& earlier, const Access& later) {
  const std::pair<Stamp, Stamp> both{earlier.stamp, later.stamp};
  if (std::find(block.reported.begin(), block.reported.end(), both) != block.reported.end()) return;
  block.reported.push_back(both);
  const bool knows_bytes = earlier.begin != earlier.end && later.begin != later.end;
  const std::uintptr_t begin = std::max(earlier.begin, later.begin), end = std::min(earlier.end, later.end);
  report(describe(later) + " is not ordered after " + describe(earlier) + ":\n  both touch " +
         (knows_bytes ? std::to_string(end - begin) + " bytes of " : "") + "allocation #" +
         std::to_string(block.number) + " (" + std::to_string(block.requested) + " bytes). " +
         missing_wait(earlier, later));
}

bool overlap(const Access& a, const Access& b) {
  return a.begin < b.end && b.begin < a.end;
}

Access access_of(const NodePtr& node) {
  const Operation& operation = *node->operation;
  Access access{node->stamp,
                node->stream,
                node->launch,
                node->captured_in,
                operation.name,
                operation.caller,
                0,
                0,
                false,
                {}};
  if (knows_kernels_bytes()) access.clock = {node, &node->clock};
  return access;
}

/// Whether streams, events or the host order the two; either of them may have run first.
bool are_ordered(const Access& noted, const Access& access, const Clock& clock) {
  return clock.knows(noted.stamp) || (noted.clock != nullptr && noted.clock->knows(access.stamp));
}

void add_access(BlockHistory& history, Access access, const Clock& clock) {
  std::vector<Access>& all = history.accesses;
  for (const Access& noted : all) {
    if (overlap(noted, access) && (noted.writes || access.writes) && !are_ordered(noted, access, clock)) {
      report_race(history, noted, access);
    }
  }
  // An operation that comes after this one comes after those that it replaces.
  std::erase_if(all, [&](const Access& earlier) {
    return earlier.stamp.lane == access.stamp.lane && earlier.begin == access.begin &&
           earlier.end == access.end && (access.writes || !earlier.writes);
  });
  if (all.size() > kManyAccesses) {
    std::erase_if(all, [](const Access& earlier) { return state().host.knows(earlier.stamp); });
  }
  all.push_back(std::move(access));
}

Races read_setting() {
  const char* const text = std::getenv("RINGTAPE_MODEL_RACES");
  if (text == nullptr || std::strcmp(text, "allocations") == 0) return Races::allocations;
  if (std::strcmp(text, "off") == 0) return Races::off;
  if (std::strcmp(text, "exact") == 0) {
#if defined(GPU_MODEL_INSTRUMENTED)
    return Races::exact;
#else
    std::fprintf(stderr,
                 "gpu model: RINGTAPE_MODEL_RACES=exact: expected a build with RINGTAPE_MODEL_EXACT=ON\n");
    std::_Exit(2);
#endif
  }
  std::fprintf(stderr, "gpu model: RINGTAPE_MODEL_RACES=%s: expected allocations, exact or off\n", text);
  std::_Exit(2);
}

Races& setting() {
  static Races current = read_setting();
  return current;
}

bool is_live(const BlockHistory& history) {
  return history.freed.name.empty() && !(history.in_graph && history.allocated.name.empty());
}

/// The operation touches these bytes, or, where it is not known which, some of the block.
void touch(const NodePtr& node, const Range& range, bool writes, bool knows_bytes) {
  const std::shared_ptr<BlockHistory> found = history_at(range.begin);
  if (found == nullptr) return;
  BlockHistory& history = *found;
  Access access = access_of(node);
  if (!is_live(history)) return report_freed_use(access, history);
  access.writes = writes;
  if (knows_bytes) {
    access.begin = reinterpret_cast<std::uintptr_t>(range.begin);
    access.end = access.begin + range.bytes;
  }
  if (!node->clock.knows(history.allocated.stamp)) report_race(history, history.allocated, access);
  add_access(history, std::move(access), node->clock);
  if (!knows_bytes && knows_kernels_bytes()) node->may_touch.push_back(found);
}

/// The memory is freed: after everything that has touched it.
void release(const NodePtr& node, const Range& range) {
  const Access access = access_of(node);
  BlockHistory& history = *history_at(range.begin);
  history.freed = access;
  if (setting() == Races::off) return;
  if (!node->clock.knows(history.allocated.stamp)) report_race(history, history.allocated, access);
  for (const Access& earlier : history.accesses) {
    if (!node->clock.knows(earlier.stamp)) report_race(history, earlier, access);
  }
}

void allocate(const NodePtr& node, const Range& range) {
  Block& block = *live_block(range.begin, 0);
  if (block.history->in_graph) {
    const BlockHistory& before = *block.history;
    block.history = std::make_shared<BlockHistory>(BlockHistory{
        before.number, before.requested, before.begin, before.function, before.caller, before.stream, true});
  }
  block.history->allocated = access_of(node);
}

}  // namespace

Races set_races(Races races) {
  const Lock lock(state().mutex);
  return std::exchange(setting(), races);
}

bool knows_kernels_bytes() {
  return setting() == Races::exact;
}

std::string describe(const BlockHistory& history) {
  std::string text = "allocation #" + std::to_string(history.number) + " (" +
                     std::to_string(history.requested) + " bytes, " + history.function;
  if (history.stream >= 0) text += " on stream " + std::to_string(history.stream);
  return text + " in " + place_of(history.caller) + ")";
}

std::string describe(const Access& access) {
  const std::string where = access.launch == 0
                                ? " on stream " + std::to_string(access.stream)
                                : " in a graph, captured on stream " + std::to_string(access.captured_in);
  return access.name + where + " (queued in " + place_of(access.caller) + ")";
}

void report_freed_use(const Access& access, const BlockHistory& history) {
  const bool is_freed = !history.freed.name.empty();
  std::string text = describe(access) + " uses memory that " +
                     (is_freed ? "has been freed" : "no launch of its graph has allocated") + ":\n  " +
                     describe(history);
  if (is_freed) text += ", freed by " + history.freed.name + " in " + place_of(history.freed.caller);
  report(text);
}

void check_touched(const NodePtr& node, const std::vector<Touched>& touched) {
  for (const auto& history : node->may_touch) {
    const std::uintptr_t end = history->begin + history->requested;
    for (const Touched& piece : touched) {
      if (piece.end <= history->begin || piece.begin >= end) continue;
      Access access = access_of(node);
      access.begin = std::max(piece.begin, history->begin);
      access.end = std::min(piece.end, end);
      access.writes = piece.writes;
      add_access(*history, std::move(access), node->clock);
    }
  }
  node->may_touch.clear();
}

void check_accesses(const NodePtr& node) {
  const Operation& operation = *node->operation;
  switch (operation.kind) {
    case Kind::allocation:
      return allocate(node, operation.writes[0]);
    case Kind::release:
      return release(node, operation.writes[0]);
    default:
      break;
  }
  if (setting() == Races::off) return;
  for (const Range& range : operation.allocations) touch(node, range, true, false);
  for (const Range& range : operation.reads) touch(node, range, false, true);
  for (const Range& range : operation.writes) touch(node, range, true, true);
}

}  // namespace gpu_model
