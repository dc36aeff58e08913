#include "gpu_model/runtime/host_function.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/stream.h"

namespace gpu_model {
namespace {

/// The longest time of a function that does not wait. A longer function runs concurrently with the program,
/// and a schedule may then differ from run to run.
constexpr std::chrono::milliseconds kUsualTime{200};
/// The program makes no calls for this time: it may be waiting for a function.
constexpr std::chrono::milliseconds kIdleTime{100};

struct HostFunctions {
  std::condition_variable changed;
  std::deque<NodePtr> started;
  NodePtr runs;            ///< the first of them; null if none has been called yet
  std::thread::id thread;  ///< the thread that calls them; it exists from the first function on
};

/// Never destroyed, as its thread does not end.
HostFunctions& functions() {
  static auto* const all = new HostFunctions;
  return *all;
}

/// Whether the host function that is running may use this memory, as the operation comes after it.
bool is_open_to_function(const PinnedMemory::Use& use) {
  return std::any_of(state().pending.begin(), state().pending.end(), [&](const auto& entry) {
    const Node& node = *entry.second;
    return node.stamp == use.stamp && comes_after_host_function(node);
  });
}

void call(Lock& lock, const NodePtr& node) {
  // The function may signal to any thread that the stream has reached it ("stream synchronization can be done
  // by signaling from a host function"), which the model does not see.
  host_has_waited_for(node->clock.without(node->stamp));
  functions().runs = node;
  state().pinned.lend(is_open_to_function);
  close_device_memory();
  thread_state().host_function = node->operation.get();
  const std::int64_t start = now();
  lock.unlock();
  node->operation->run();
  lock.lock();
  thread_state().host_function = nullptr;
  functions().runs = nullptr;
  state().pinned.take_back();
  finish(*node, start);
  functions().started.pop_front();
  state().changed.notify_all();
  run_at_call();
  close_device_memory();
}

/// The first host function that waits for its turn; null if there is none.
NodePtr first_waiting() {
  const auto it = std::find_if(state().pending.begin(), state().pending.end(), [](const auto& entry) {
    return entry.second->operation->kind == Kind::host_function;
  });
  return it == state().pending.end() ? nullptr : it->second;
}

[[noreturn]] void run_thread() {
  Lock lock(state().mutex);
  while (true) {
    if (!functions().started.empty()) {
      call(lock, NodePtr(functions().started.front()));
    } else if (const NodePtr waiting = first_waiting(); waiting == nullptr) {
      functions().changed.wait(lock);
    } else {
      const std::uint64_t calls = state().calls;
      const bool is_idle = functions().changed.wait_for(lock, kIdleTime) == std::cv_status::timeout &&
                           calls == state().calls && functions().started.empty();
      while (is_idle && !waiting->done && run_towards(*waiting)) {
      }
      close_device_memory();
    }
  }
}

}  // namespace

void expect_host_function() {
  if (functions().thread == std::thread::id()) {
    std::thread thread(run_thread);
    functions().thread = thread.get_id();
    thread.detach();
  }
  functions().changed.notify_one();
}

void start_host_function(NodePtr node) {
  functions().started.push_back(node);
  if (std::this_thread::get_id() == functions().thread) return;  // calls it next
  functions().changed.notify_one();
  close_device_memory();
  Lock lock(state().mutex, std::adopt_lock);
  state().changed.wait_for(lock, kUsualTime, [&] { return node->done.load(); });
  lock.release();
}

bool host_function_runs() {
  return !functions().started.empty();
}

bool comes_after_host_function(const Node& node) {
  const NodePtr& function = functions().runs;
  return function != nullptr && node.id != function->id && node.clock.knows(function->stamp);
}

cudaError_t forbid_in_host_function() {
  const Operation* const function = thread_state().host_function;
  if (function == nullptr) return cudaSuccess;
  report("the function of " + describe(*function) + " calls a CUDA function, which it must not");
  return cudaErrorNotPermitted;
}

}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* user_data) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) {
    CUstream_st* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (function == nullptr) return cudaErrorInvalidValue;
    Operation operation;
    operation.kind = Kind::host_function;
    operation.name = "cudaLaunchHostFunc";
    operation.caller = caller;
    operation.run = [function, user_data] {
      function(user_data);
      return Progress::done;
    };
    NodePtr node;
    return queue(*stream, std::make_shared<const Operation>(std::move(operation)), node);
  });
}
}
