#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/simt/barrier.h"
#include "kernels/simt/executor.h"
#include "kernels/simt/observer.h"
#include "kernels/simt/shared_memory.h"

namespace ringtape::simt {

constexpr int kMaxThreads = 1024;  // of a block

#if defined(RINGTAPE_CHECK)
constexpr bool kCheck = true;
#else
constexpr bool kCheck = false;
#endif

/// Shared by all workers of one launch.
struct Launch {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  void (*thread)(const void*);
  const void* context;
  const void* kernel;
  OrderSetting order;
  Observer* observer;  // null for none

  // The stored error comes from the failing block with the lowest number. All blocks before it run, so the
  // error does not depend on the number of workers.
  std::atomic<std::int64_t> first_failed_block = std::numeric_limits<std::int64_t>::max();
  std::mutex mutex{};
  std::exception_ptr error{};

  void report(std::exception_ptr block_error, std::int64_t block_number) {
    const std::lock_guard lock(mutex);
    if (block_number >= first_failed_block) return;
    error = block_error;
    first_failed_block = block_number;
  }
};

/// Thrown in a waiting thread to unwind its stack when another thread of the block has failed.
struct Cancelled {};

/// Runs blocks, one at a time, on one OS thread.
class Worker {
 public:
  static Worker& current() {
    static thread_local Worker worker;
    return worker;
  }

  bool busy() const { return launch_ != nullptr; }
  void run_blocks(Launch& launch, std::int64_t first, std::int64_t last);

  int rank() const { return running_->rank; }
  /// The stack of the running thread.
  const Stack& stack() const { return running_->stack; }
  void* dynamic_shared() { return dynamic_shared_.data(); }
  void sync_block(SourceLocation location);
  std::uint64_t combine_block(std::uint64_t word, Combine combine, SourceLocation location);
  std::uint64_t combine_warp(unsigned mask, std::uint64_t word, int source, WarpResult result,
                             Combine combine, SourceLocation location);
  /// The existing lanes of the running thread's warp.
  unsigned warp_lanes() const { return ~lanes_beyond_block(running_->rank / kWarp); }

 private:
  void run_threads();
  void begin_block();
  void run_thread();
  void thread_returned(int rank);

  void arrive(Barrier& barrier, SourceLocation location);
  void release(Barrier& barrier);
  void complete_block_barrier();
  bool all_arrived(const Warp& warp, const WarpBarrier& barrier) const;
  void complete_warp_barrier(Warp& warp, WarpBarrier& barrier);
  void wait();

  Runner* next_runner();
  Runner* idle_runner();
  void add_idle_runner();
  void switch_to(Runner* runner);

  void fail_block(std::exception_ptr error);
  void fail_block(const std::string& text);
  std::string deadlock() const;
  std::string block_text() const;
  unsigned lanes_beyond_block(int warp) const;
  int rank_in_order(int turn) const;

  Launch* launch_ = nullptr;
  std::int64_t block_number_ = 0;
  std::int64_t next_block_ = 0;
  std::int64_t last_block_ = 0;

  // The current block.
  int threads_ = 0;
  int begun_ = 0;  // threads that have begun
  int live_ = 0;   // threads that have not returned
  bool cancelled_ = false;
  std::vector<int> shuffled_;
  RunnerList ready_;
  Barrier block_barrier_;
  Combine block_combine_ = nullptr;  // of block_barrier_; null for __syncthreads
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(kMaxThreads);
  std::uint64_t result_ = 0;
  std::vector<Warp> warps_ = std::vector<Warp>(kMaxThreads / kWarp);
  DynamicShared dynamic_shared_;

  std::vector<std::unique_ptr<Runner>> runners_;
  RunnerList idle_;  // most recently used first: its stack is still in the cache
  Runner* running_ = nullptr;
  Fiber caller_;  // of run_blocks
};

}  // namespace ringtape::simt
