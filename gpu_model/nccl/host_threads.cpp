#include "gpu_model/nccl/host_threads.h"

#include <atomic>
#include <mutex>

#include "gpu_model/runtime/engine.h"

namespace gpu_model::nccl {
namespace {

struct Threads {
  std::mutex mutex;
  int known = 0, waiting = 0;
  std::atomic<std::uint64_t> activity{0};
};

Threads& threads() {
  static Threads* const all = new Threads;  // outlives every thread
  return *all;
}

/// The calling thread, during its lifetime.
struct Self {
  bool is_known = false;
  int waits = 0;  // nesting depth

  void enter() {
    if (is_known) return;
    is_known = true;
    const std::lock_guard lock(threads().mutex);
    ++threads().known;
  }
  void wait(bool begins) {
    if (!is_known) return;
    waits += begins ? 1 : -1;
    ++threads().activity;
    if (waits != (begins ? 1 : 0)) return;
    const std::lock_guard lock(threads().mutex);
    threads().waiting += begins ? 1 : -1;
  }
  ~Self() {
    if (!is_known) return;
    const std::lock_guard lock(threads().mutex);
    --threads().known;
    ++threads().activity;
  }
};

Self& self() {
  thread_local Self thread;
  return thread;
}

}  // namespace

void enter_host_thread() {
  static const bool hooked = (set_wait_hook([](bool begins) { self().wait(begins); }), true);
  static_cast<void>(hooked);
  self().enter();
}

void note_activity() {
  ++threads().activity;
}

std::uint64_t activity() {
  return threads().activity;
}

bool all_host_threads_wait() {
  const std::lock_guard lock(threads().mutex);
  return threads().known > 0 && threads().waiting == threads().known;
}

HostWait::HostWait() {
  self().wait(true);
}

HostWait::~HostWait() {
  self().wait(false);
}

}  // namespace gpu_model::nccl
