#include "gpu_model/nccl/host_threads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "gpu_model/runtime/engine.h"

namespace gpu_model::nccl {
namespace {

using IsOver = std::function<bool()>;
using Waits = std::vector<IsOver>;  // of a thread, the innermost last

struct Threads {
  std::mutex mutex;
  std::set<const Waits*> known;
  std::atomic<std::uint64_t> activity{0};
};

Threads& threads() {
  static Threads* const all = new Threads;  // outlives every thread
  return *all;
}

/// The calling thread, during its lifetime.
struct Self {
  bool is_known = false;
  Waits waits;

  void enter() {
    if (is_known) return;
    is_known = true;
    const std::lock_guard lock(threads().mutex);
    threads().known.insert(&waits);
  }
  void begin_wait(IsOver is_over) {
    if (!is_known) return;
    const std::lock_guard lock(threads().mutex);
    waits.push_back(std::move(is_over));
    ++threads().activity;
  }
  void end_wait() {
    if (!is_known) return;
    const std::lock_guard lock(threads().mutex);
    waits.pop_back();
    ++threads().activity;
  }
  ~Self() {
    if (!is_known) return;
    const std::lock_guard lock(threads().mutex);
    threads().known.erase(&waits);
    ++threads().activity;
  }
};

Self& self() {
  thread_local Self thread;
  return thread;
}

}  // namespace

void enter_host_thread() {
  static const bool hooked = (set_wait_hook([](const std::atomic<bool>* done) {
                                if (done == nullptr) return self().end_wait();
                                self().begin_wait([done] { return done->load(); });
                              }),
                              true);
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
  return !threads().known.empty() &&
         std::all_of(threads().known.begin(), threads().known.end(),
                     [](const Waits* waits) { return !waits->empty() && !waits->back()(); });
}

HostWait::HostWait(IsOver is_over) {
  self().begin_wait(std::move(is_over));
}

HostWait::~HostWait() {
  self().end_wait();
}

}  // namespace gpu_model::nccl
