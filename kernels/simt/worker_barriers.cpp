#include <bit>
#include <cstring>

#include "core/error.h"
#include "kernels/simt/worker.h"

/// How the threads of a block wait at barriers, and how a failed block ends.
namespace ringtape::simt {
namespace {

bool same(SourceLocation a, SourceLocation b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace

/// Puts the running thread into the barrier's list; wait() must follow.
void Worker::arrive(Barrier& barrier, SourceLocation location) {
  if (cancelled_) throw Cancelled{};
  if (barrier.arrived == 0) {
    barrier.location = location;
  } else if (!same(barrier.location, location)) {
    fail("{}: thread ({}, {}, {}) waits at {}:{} while others wait at {}:{}", block_text(), threadIdx.x,
         threadIdx.y, threadIdx.z, location.file, location.line, barrier.location.file,
         barrier.location.line);
  }
  // From here on nothing may throw: a thread in a list must not unwind.
  if (begun_ < threads_ && idle_.empty()) add_idle_runner();
  ++barrier.arrived;
  barrier.waiting.push(running_);
}

void Worker::release(Barrier& barrier) {
  barrier.arrived = 0;
  if (launch_->order.order == ThreadOrder::reversed) barrier.waiting.take_all(ready_);  // these go first
  ready_.take_all(barrier.waiting);
}

void Worker::complete_block_barrier() {
  if (launch_->observer != nullptr) launch_->observer->block_arrived(block_barrier_.location);
  if (block_combine_ != nullptr) {
    if (live_ < threads_) {
      return fail_block(fmt::format("{} of {} threads have returned, but the others wait at {}:{}",
                                    threads_ - live_, threads_, block_barrier_.location.file,
                                    block_barrier_.location.line));
    }
    result_ = block_combine_(words_.data(), threads_);
  }
  release(block_barrier_);
}

void Worker::sync_block(SourceLocation location) {
  arrive(block_barrier_, location);
  block_combine_ = nullptr;
  if (block_barrier_.arrived == live_) complete_block_barrier();
  wait();
}

std::uint64_t Worker::combine_block(std::uint64_t word, Combine combine, SourceLocation location) {
  words_[running_->rank] = word;
  arrive(block_barrier_, location);
  block_combine_ = combine;
  if (block_barrier_.arrived == live_) complete_block_barrier();
  wait();
  return result_;
}

bool Worker::all_arrived(const Warp& warp, const WarpBarrier& barrier) const {
  return (barrier.mask & ~barrier.arrived_lanes & ~warp.gone) == 0;
}

void Worker::complete_warp_barrier(Warp& warp, WarpBarrier& barrier) {
  const unsigned missing = barrier.mask & ~barrier.arrived_lanes;
  const bool may_miss = barrier.result == result_of_sync || (!kCheck && barrier.result != result_of_combine);
  if (missing != 0 && !may_miss) {
    return fail_block(fmt::format("{}:{} names lane {}, which has returned or does not exist",
                                  barrier.location.file, barrier.location.line, std::countr_zero(missing)));
  }
  if (launch_->observer != nullptr) {
    const int number = static_cast<int>(&warp - warps_.data());
    launch_->observer->warp_arrived(number, barrier.arrived_lanes, barrier.result == result_of_sync);
  }
  barrier.result(warp, barrier.arrived_lanes, barrier.combine);
  warp.active &= ~warp.bit_of(barrier);
  release(barrier);
}

std::uint64_t Worker::combine_warp(unsigned mask, std::uint64_t word, int source, WarpResult result,
                                   Combine combine, SourceLocation location) {
  Warp& warp = warps_[running_->rank / kWarp];
  const int lane = running_->rank % kWarp;
  if (!contains(mask, lane)) {
    fail("{}: lane {} calls {}:{} with mask {:#010x}, which does not contain it", block_text(), lane,
         location.file, location.line, mask);
  }
  WarpBarrier& barrier = warp.barrier_of(mask);
  if (barrier.arrived == 0) {
    barrier.mask = mask;
    barrier.arrived_lanes = 0;
    barrier.result = result;
    barrier.combine = combine;
  }
  arrive(barrier, location);
  warp.active |= warp.bit_of(barrier);
  barrier.arrived_lanes |= 1u << lane;
  warp.words[lane] = word;
  warp.sources[lane] = source;
  if (all_arrived(warp, barrier)) complete_warp_barrier(warp, barrier);
  wait();
  return warp.results[lane];
}

/// Called by a thread in a barrier's list. Returns after the thread has been released, when its turn comes.
void Worker::wait() {
  const Runner* self = running_;
  Runner* next = next_runner();
  if (next == nullptr) {
    fail_block(deadlock());
    next = next_runner();
  }
  switch_to(next);
  threadIdx = self->index;
  if (cancelled_) throw Cancelled{};
}

/// The next runner when the running thread waits: a ready thread, or an idle runner for a thread that has not
/// started.
Runner* Worker::next_runner() {
  if (Runner* runner = ready_.pop()) return runner;
  return begun_ < threads_ ? idle_runner() : nullptr;
}

void Worker::switch_to(Runner* runner) {
  Runner* self = running_;
  if (runner == self) return;
  running_ = runner;
  Fiber::switch_to(self->fiber, runner->fiber);
}

// ---- errors ----

/// Ends the block: threads that have not started never start; waiting threads are woken to unwind.
void Worker::fail_block(std::exception_ptr error) {
  launch_->report(error, block_number_);
  cancelled_ = true;
  live_ -= threads_ - begun_;
  begun_ = threads_;
  release(block_barrier_);
  for (int number = 0; number * kWarp < threads_; ++number) {
    Warp& warp = warps_[number];
    for (; warp.active != 0; warp.active &= warp.active - 1) {
      release(warp.barriers[std::countr_zero(warp.active)]);
    }
  }
}

void Worker::fail_block(const std::string& text) {
  fail_block(std::make_exception_ptr(Error(block_text() + ": " + text)));
}

std::string Worker::block_text() const {
  return fmt::format("block ({}, {}, {})", blockIdx.x, blockIdx.y, blockIdx.z);
}

std::string Worker::deadlock() const {
  std::string text = "deadlock: threads wait for one another:";
  const auto add = [&](const Barrier& barrier) {
    text += fmt::format(" {} at {}:{},", barrier.arrived, barrier.location.file, barrier.location.line);
  };
  if (block_barrier_.arrived > 0) add(block_barrier_);
  for (int number = 0; number * kWarp < threads_; ++number) {
    const Warp& warp = warps_[number];
    for (unsigned rest = warp.active; rest != 0; rest &= rest - 1) {
      add(warp.barriers[std::countr_zero(rest)]);
    }
  }
  text.pop_back();
  return text;
}

}  // namespace ringtape::simt
