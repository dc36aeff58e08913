#include "gpu_model/runtime/engine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <unordered_set>

#include "gpu_model/runtime/alignment.h"
#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/capture.h"
#include "gpu_model/runtime/host_function.h"
#include "gpu_model/runtime/races.h"
#include "gpu_model/runtime/state.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

/// Queued operations, and their scheduling.
namespace gpu_model {
namespace {

constexpr std::chrono::milliseconds kBlockedPause{2};
constexpr int kQueriesUntilLate = 3;

}  // namespace

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void finish(Node& node, std::int64_t start) {
  node.done = true;
  node.end = now();
  if (state().observer != nullptr && node.operation->run) {
    state().observer->finished(
        {*node.operation, node.device, node.stream, node.correlation, node.launch != 0, start, node.end});
  }
  for (Node* const later : node.after) {
    if (--later->waits_for == 0) state().ready.emplace(later->id, later);
  }
  node.after.clear();
  node.before.clear();
  node.operation.reset();
  state().ready.erase(node.id);
  state().pending.erase(node.id);  // may destroy the node
}

namespace {

/// False if it is blocked. A host function may be unfinished; it runs in its own thread, with the lock
/// released.
bool run(Node& node) {
  Device& device = *state().devices[static_cast<std::size_t>(node.device)];
  const std::int64_t start = now();
  if (node.operation->run && device.sticky == cudaSuccess) {
    if (node.operation->kind == Kind::host_function) {
      state().ready.erase(node.id);
      start_host_function(state().pending.at(node.id));
      return true;
    }
    if (node.operation->kind == Kind::kernel) {
      open_device_memory_of(node.device);
    } else if (node.operation->kind != Kind::collective) {
      open_device_memory();
    }
    const bool records = !node.may_touch.empty();
    try {
      if (records) begin_access_record();
      if (node.operation->run() == Progress::blocked) return false;
      if (records) check_touched(state().pending.at(node.id), end_access_record());
      if (const std::string access = take_misaligned_access(); !access.empty()) {
        device.sticky = cudaErrorMisalignedAddress;
        report(describe(*node.operation) + " failed: " + access);
      }
    } catch (const std::exception& error) {
      device.sticky = cudaErrorLaunchFailure;
      report(describe(*node.operation) + " failed: " + error.what());
    }
  }
  finish(node, start);
  return true;
}

/// Runs the first operation that is not blocked, in the given order; false if there is none.
bool run_first(const std::vector<Node*>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](Node* node) { return run(*node); });
}

/// The ready operations, in the order of the schedule.
std::vector<Node*> ready_by_choice() {
  std::vector<Node*> nodes;
  for (const auto& [id, node] : state().ready) nodes.push_back(node);
  if (state().schedule == Schedule::early) std::reverse(nodes.begin(), nodes.end());
  if (state().schedule == Schedule::random) std::shuffle(nodes.begin(), nodes.end(), state().random);
  return nodes;
}

using Ids = std::unordered_set<std::uint64_t>;

/// `target` and the operations that must complete before it.
Ids needed_for(const Node& target) {
  Ids needed{target.id};
  std::vector<const Node*> left{&target};
  while (!left.empty()) {
    const Node* const node = left.back();
    left.pop_back();
    for (const NodePtr& earlier : node->before) {
      if (!earlier->done && needed.insert(earlier->id).second) left.push_back(earlier.get());
    }
  }
  return needed;
}

/// Runs the first of these that is ready and not blocked, in the order of the calls; false when there is
/// none.
bool run_one_of(const Ids& ids) {
  std::vector<Node*> nodes;
  for (const auto& [id, node] : state().ready) {
    if (ids.contains(id)) nodes.push_back(node);
  }
  return run_first(nodes);
}

}  // namespace

bool run_any() {
  if (state().ready.empty()) return false;
  if (state().schedule != Schedule::random) {
    // The common case: the first one is not blocked.
    Node* const first =
        state().schedule == Schedule::early ? state().ready.rbegin()->second : state().ready.begin()->second;
    if (run(*first)) return true;
  }
  return run_first(ready_by_choice());
}

bool run_towards(const Node& node) {
  return run_one_of(needed_for(node));
}

void follow(State& of, Schedule schedule, std::uint64_t seed) {
  of.schedule = schedule;
  of.seed = seed;
  of.random.seed(seed);
}

void run_at_call() {
  switch (state().schedule) {
    case Schedule::order:
      while (run_any()) {
      }
      return;
    case Schedule::late:
    case Schedule::early:
      return;
    case Schedule::random:
      // A chance of 1/2, 1/4 or 0 by the seed: one chance for all would make an order much more frequent.
      while (state().random() % 4 > 1 + state().seed % 3 && run_any()) {
      }
      return;
  }
}

void run_until(Lock& lock, const NodePtr& node) {
  bool waits = false;
  const bool is_late = state().schedule == Schedule::late && !node->done;
  const Ids needed = is_late ? needed_for(*node) : Ids();
  while (!node->done) {
    const bool has_run = run_one_of(needed) || run_any();
    if (state().wait_hook != nullptr && waits == has_run) {
      waits = !has_run;
      state().wait_hook(waits ? &node->done : nullptr);
    }
    if (has_run) continue;
    close_device_memory();
    state().changed.wait_for(lock, kBlockedPause);
  }
  if (waits) state().wait_hook(nullptr);
  if (state().schedule != Schedule::early) return;
  while (run_any()) {
  }
}

NodePtr add_node(std::shared_ptr<const Operation> operation, int device, int stream, Stamp stamp,
                 Order order) {
  const auto node = std::make_shared<Node>();
  node->id = ++state().nodes;
  node->operation = std::move(operation);
  node->device = device;
  node->stream = stream;
  node->correlation = state().calls;
  node->stamp = stamp;
  node->launch = order.launch;
  node->captured_in = order.captured_in;
  node->clock = std::move(order.clock);
  for (const NodePtr& earlier : order.before) {
    if (earlier == nullptr) continue;
    node->clock.merge(earlier->clock);
    if (earlier->done) continue;
    node->before.push_back(earlier);
    earlier->after.push_back(node.get());
    ++node->waits_for;
  }
  node->clock.merge(state().host);
  node->clock.set(stamp);
  const auto note_pinned = [&](const std::vector<Range>& ranges, bool writes) {
    for (const Range& range : ranges) {
      if (state().pinned.find(range.begin, range.bytes).second != nullptr) {
        state().pinned.use(range.begin, range.bytes, writes, *node);
      }
    }
  };
  note_pinned(node->operation->reads, false);
  note_pinned(node->operation->writes, true);
  check_accesses(node);
  if (state().observer != nullptr) state().observer->queued(node->correlation, *node->operation);
  state().pending.emplace(node->id, node);
  if (node->waits_for == 0) state().ready.emplace(node->id, node.get());
  if (node->operation->kind == Kind::host_function) expect_host_function();
  return node;
}

void host_has_waited_for(const Clock& clock) {
  state().host.merge(clock);
  state().pinned.host_has_waited_for(state().host);
}

bool query(const std::vector<NodePtr>& nodes) {
  if (state().schedule == Schedule::early) {
    while (run_any()) {
    }
  }
  while (state().schedule == Schedule::random && state().random() % 2 == 0 && run_any()) {
  }
  bool all_done = true;
  for (const NodePtr& node : nodes) {
    if (!node->done && state().schedule == Schedule::late && ++node->queries == kQueriesUntilLate) {
      node->queries = 0;
      while (!node->done && run_towards(*node)) {
      }
    }
    all_done = all_done && node->done;
  }
  return all_done;
}

void set_observer(Observer* observer) {
  const Lock lock(state().mutex);
  state().observer = observer;
}

void set_wait_hook(WaitHook hook) {
  const Lock lock(state().mutex);
  state().wait_hook = hook;
}

cudaError_t enqueue(cudaStream_t handle, Operation operation) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = forbid_in_host_function()) return error;
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  ++state().calls;
  NodePtr node;
  const cudaError_t error = queue(*stream, std::make_shared<const Operation>(std::move(operation)), node);
  run_at_call();
  close_device_memory();
  return error;
}

cudaError_t wait(cudaStream_t handle) {
  Lock lock(state().mutex);
  if (const cudaError_t error = forbid_in_host_function()) return error;
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const int device = stream->device;
  wait_for_stream(lock, *stream);
  close_device_memory();
  return state().devices[static_cast<std::size_t>(device)]->sticky;
}

bool make_progress(bool everything) {
  Lock lock(state().mutex);
  bool has_run = false;
  if (everything) {
    while (run_any()) has_run = true;
    if (!has_run && host_function_runs()) {  // which may let others run
      state().changed.wait_for(lock, kBlockedPause);
      has_run = true;
    }
  } else {
    run_at_call();
  }
  close_device_memory();
  if (has_run) state().changed.notify_all();
  return has_run;
}

void wake_waiting() {
  state().changed.notify_all();
}

int device_of(cudaStream_t handle) {
  const Lock lock(state().mutex);
  const CUstream_st* const stream = find_stream(handle);
  return stream == nullptr ? -1 : stream->device;
}

bool is_capturing(cudaStream_t handle) {
  const Lock lock(state().mutex);
  const CUstream_st* const stream = find_stream(handle);
  return stream != nullptr && stream->capture != nullptr;
}

bool is_live_device_memory(const void* address, std::size_t bytes) {
  const Lock lock(state().mutex);
  return live_block(address, bytes) != nullptr;
}

bool is_pinned_memory(const void* address, std::size_t bytes) {
  const Lock lock(state().mutex);
  return state().pinned.find(address, bytes).second != nullptr;
}

bool is_device_memory(const void* address) {
  return device_of_memory(address) >= 0;
}

int device_of_memory(const void* address) {
  const Lock lock(state().mutex);
  return memory_device(address);
}

char* for_operations(const void* address) {
  const Lock lock(state().mutex);
  if (state().pinned.find(address, 1).second != nullptr) return state().pinned.alias(address);
  return static_cast<char*>(const_cast<void*>(address));
}

void report(const std::string& text) {
  ++state().reports;
  if (state().report_handler != nullptr) return state().report_handler(text);
  state().has_printed_reports = true;
  std::fprintf(stderr, "gpu model: %s\n", text.c_str());
}

std::string describe(const Operation& operation) {
  std::string text = operation.name;
  if (operation.caller != nullptr) text += " (queued in " + place_of(operation.caller) + ")";
  return text;
}

}  // namespace gpu_model
