#pragma once

#include <cstddef>

#include "kernels/simt/executor.h"

namespace ringtape::simt {

struct Launch;

/// Receives events of a kernel's blocks and barriers, for the analysis (kernels/analysis). Events whose
/// function is not overridden are ignored.
class Observer {
 public:
  virtual ~Observer() = default;
  /// If false, the threads of launches do not run, and only launch_begins() and launch_ends() are called.
  virtual bool runs_threads() const { return true; }
  virtual void launch_begins(const Launch&) {}
  virtual void launch_ends() {}
  /// blockIdx is set; no thread has begun.
  virtual void block_begins() {}
  virtual void thread_returns(int /*rank*/) {}
  /// All threads of the block that have not returned have arrived at a barrier, and continue.
  virtual void block_arrived(SourceLocation) {}
  /// The lanes `lanes` of a warp have arrived at a __syncwarp (`orders_memory`) or another warp function.
  virtual void warp_arrived(int /*warp*/, unsigned /*lanes*/, bool /*orders_memory*/) {}
  /// `count` of the thread's asynchronous copies (kernels/common/async_copy.h) have not been waited for.
  virtual void copies_under_way(int /*rank*/, int /*count*/) {}
  /// The thread starts a copy of `bytes` bytes to `shared`, by the instruction before `code`. The bytes
  /// arrive when the thread writes them.
  virtual void copy_begins(int /*rank*/, void* /*shared*/, std::size_t /*bytes*/, const void* /*code*/) {}
};

/// Sets the observer of all further launches, which then have one worker; null for none.
void set_observer(Observer* observer);
Observer* observer();

/// Receives the accesses of instrumented kernels (kernels/analysis/tsan_callbacks.cpp) while no Analysis is
/// active. The GPU model sets it.
using AccessHook = void (*)(const void* memory, std::size_t bytes, bool writes);
inline AccessHook access_hook = nullptr;

}  // namespace ringtape::simt
