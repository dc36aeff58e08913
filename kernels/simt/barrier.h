#pragma once

#include <bit>
#include <cstdint>

#include "kernels/simt/executor.h"
#include "kernels/simt/fiber.h"

/// The barriers of a block's threads.
namespace ringtape::simt {

constexpr int kWarp = 32;

/// A stack on which threads of a block run one after another. While a thread waits, it keeps its runner;
/// threads that have not started start on other runners.
struct Runner {
  explicit Runner(std::size_t number) : stack(number) {}
  Stack stack;
  Fiber fiber;
  int rank = 0;            // of the running thread
  uint3 index{};           // that thread's threadIdx
  Runner* next = nullptr;  // in its list; a runner is in at most one list
};

/// An intrusive FIFO list of runners.
class RunnerList {
 public:
  bool empty() const { return first_ == nullptr; }
  void push(Runner* runner) {
    runner->next = nullptr;
    (empty() ? first_ : last_->next) = runner;
    last_ = runner;
  }
  void push_front(Runner* runner) {
    if (empty()) last_ = runner;
    runner->next = first_;
    first_ = runner;
  }
  Runner* pop() {
    Runner* runner = first_;
    if (runner != nullptr) first_ = runner->next;
    return runner;
  }
  void take_all(RunnerList& other) {
    if (other.empty()) return;
    (empty() ? first_ : last_->next) = other.first_;
    last_ = other.last_;
    other.first_ = nullptr;
  }

 private:
  Runner* first_ = nullptr;
  Runner* last_ = nullptr;
};

/// Threads waiting for one another at one line of the source.
struct Barrier {
  RunnerList waiting;
  int arrived = 0;
  SourceLocation location{};
};

struct Warp;
/// Computes Warp::results of the lanes in `lanes` from their words.
using WarpResult = void (*)(Warp& warp, unsigned lanes, Combine combine);

/// A barrier of the lanes in `mask`: a sync, a shuffle, a vote or a reduction.
struct WarpBarrier : Barrier {
  unsigned mask = 0;
  unsigned arrived_lanes = 0;  // lanes that have arrived
  WarpResult result = nullptr;
  Combine combine = nullptr;
};

struct Warp {
  unsigned gone = 0;    // lanes that have returned or do not exist
  unsigned active = 0;  // bit i: barriers[i] is in progress
  WarpBarrier barriers[kWarp];
  std::uint64_t words[kWarp];
  std::uint64_t results[kWarp];
  int sources[kWarp];

  unsigned bit_of(const WarpBarrier& barrier) const { return 1u << (&barrier - barriers); }

  /// The barrier in progress for this mask, or a free one.
  WarpBarrier& barrier_of(unsigned mask) {
    for (unsigned rest = active; rest != 0; rest &= rest - 1) {
      WarpBarrier& barrier = barriers[std::countr_zero(rest)];
      if (barrier.mask == mask) return barrier;
    }
    return barriers[std::countr_one(active)];
  }
};

inline bool contains(unsigned lanes, int lane) {
  return (lanes >> lane & 1u) != 0;
}

// The results of a sync, a shuffle, a ballot, and a barrier with a Combine.
void result_of_sync(Warp& warp, unsigned lanes, Combine combine);
void result_of_shuffle(Warp& warp, unsigned lanes, Combine combine);
void result_of_ballot(Warp& warp, unsigned lanes, Combine combine);
void result_of_combine(Warp& warp, unsigned lanes, Combine combine);

}  // namespace ringtape::simt
