#include "kernels/simt/worker.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

/// Scheduling of blocks, of a block's threads, and of the stacks on which they run.
namespace ringtape::simt {

void Worker::run_blocks(Launch& launch, std::int64_t first, std::int64_t last) {
  next_block_ = first;
  last_block_ = last;
  threads_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  begun_ = threads_;
  cancelled_ = false;
  blockDim = launch.block;
  gridDim = launch.grid;
  shuffled_.resize(threads_);
  dynamic_shared_.resize(launch.shared_bytes);
  running_ = idle_runner();
  launch_ = &launch;
  Fiber::switch_to(caller_, running_->fiber);
  launch_ = nullptr;
}

/// The endless loop of every runner: runs threads of blocks.
void Worker::run_threads() {
  for (;;) {
    if (Runner* runner = ready_.pop()) {
      idle_.push_front(running_);
      switch_to(runner);
    } else if (begun_ < threads_) {
      run_thread();
    } else if (live_ > 0) {
      fail_block(deadlock());
    } else if (next_block_ < std::min<std::int64_t>(last_block_, launch_->first_failed_block)) {
      begin_block();
    } else {
      Runner* self = running_;
      idle_.push_front(self);
      Fiber::switch_to(self->fiber, caller_);
    }
  }
}

void Worker::begin_block() {
  block_number_ = next_block_++;
  const std::int64_t row = block_number_ / gridDim.x;
  blockIdx = {static_cast<unsigned>(block_number_ % gridDim.x), static_cast<unsigned>(row % gridDim.y),
              static_cast<unsigned>(row / gridDim.y)};
  begun_ = 0;
  live_ = threads_;
  for (int warp = 0; warp * kWarp < threads_; ++warp) warps_[warp].gone = lanes_beyond_block(warp);
  if constexpr (kCheck) {
    poison_static_shared();
    dynamic_shared_.poison();
  }
  if (launch_->order.order == ThreadOrder::shuffled) {
    std::iota(shuffled_.begin(), shuffled_.end(), 0);
    std::shuffle(shuffled_.begin(), shuffled_.end(), std::mt19937_64(launch_->order.seed + block_number_));
  }
  if (launch_->observer != nullptr) launch_->observer->block_begins();
}

unsigned Worker::lanes_beyond_block(int warp) const {
  const int lanes = threads_ - warp * kWarp;
  return lanes >= kWarp ? 0 : ~0u << lanes;
}

int Worker::rank_in_order(int turn) const {
  switch (launch_->order.order) {
    case ThreadOrder::forward:
      return turn;
    case ThreadOrder::reversed:
      return threads_ - 1 - turn;
    case ThreadOrder::shuffled:
      return shuffled_[turn];
  }
  return turn;
}

void Worker::run_thread() {
  Runner& self = *running_;
  const int rank = rank_in_order(begun_++);
  const auto number = static_cast<unsigned>(rank);
  self.rank = rank;
  self.index = {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
  threadIdx = self.index;
  try {
    launch_->thread(launch_->context);
  } catch (const Cancelled&) {
  } catch (...) {
    fail_block(std::current_exception());
  }
  thread_returned(rank);
}

void Worker::thread_returned(int rank) {
  if (launch_->observer != nullptr) launch_->observer->thread_returns(rank);
  --live_;
  Warp& warp = warps_[rank / kWarp];
  warp.gone |= 1u << rank % kWarp;
  if (block_barrier_.arrived > 0 && block_barrier_.arrived == live_) complete_block_barrier();
  for (unsigned rest = warp.active; rest != 0 && !cancelled_; rest &= rest - 1) {
    WarpBarrier& barrier = warp.barriers[std::countr_zero(rest)];
    if (all_arrived(warp, barrier)) complete_warp_barrier(warp, barrier);
  }
}

void Worker::add_idle_runner() {
  runners_.push_back(std::make_unique<Runner>(runners_.size()));
  Runner* runner = runners_.back().get();
  runner->fiber.start(
      runner->stack, [](void* worker) { static_cast<Worker*>(worker)->run_threads(); }, this);
  idle_.push_front(runner);
}

Runner* Worker::idle_runner() {
  if (idle_.empty()) add_idle_runner();
  return idle_.pop();
}

}  // namespace ringtape::simt
