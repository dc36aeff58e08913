#pragma once

#include <cstddef>

namespace ringtape::simt {

struct Launch;
struct SourceLocation;

/// Receives events of a kernel's blocks and barriers, for the analysis (kernels/analysis).
class Observer {
 public:
  virtual ~Observer() = default;
  /// False: the threads of launches do not run, and launch_begins() and launch_ends() are all that is called.
  virtual bool runs_threads() const { return true; }
  virtual void launch_begins(const Launch& launch) = 0;
  virtual void launch_ends() = 0;
  /// blockIdx is set; no thread has begun.
  virtual void block_begins() = 0;
  virtual void thread_returns(int rank) = 0;
  /// All threads of the block that have not returned have arrived at a barrier, and continue.
  virtual void block_arrived(SourceLocation location) = 0;
  /// The lanes `lanes` of a warp have arrived, in __syncwarp (`orders_memory`), a shuffle or a vote.
  virtual void warp_arrived(int warp, unsigned lanes, bool orders_memory) = 0;
  /// `count` of the thread's asynchronous copies (kernels/common/async_copy.h) have not been waited for.
  virtual void copies_under_way(int rank, int count) = 0;
  /// The thread begins to copy `bytes` bytes to `shared`, by the instruction before `code`. The bytes arrive
  /// when the thread writes them.
  virtual void copy_begins(int rank, void* shared, std::size_t bytes, const void* code) = 0;
};

/// Sets the observer of all further launches, which then have one worker; null for none.
void set_observer(Observer* observer);
Observer* observer();

/// Receives the accesses of instrumented kernels (kernels/analysis/tsan_callbacks.cpp) while nothing analyses
/// them: the GPU model.
using AccessHook = void (*)(const void* memory, std::size_t bytes, bool writes);
inline AccessHook access_hook = nullptr;

}  // namespace ringtape::simt
