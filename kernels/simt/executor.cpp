#include "kernels/simt/executor.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "kernels/simt/fiber.h"
#include "kernels/simt/shared_memory.h"

namespace ringtape::simt {

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;  // of a block
constexpr unsigned kMaxGridYZ = 65535;

#if defined(RINGTAPE_CHECK)
constexpr bool kCheck = true;
#else
constexpr bool kCheck = false;
#endif

struct OrderSetting {
  ThreadOrder order = ThreadOrder::forward;
  std::uint64_t seed = 0;
};

OrderSetting order_from_environment() {
  const char* text = std::getenv("RINGTAPE_THREAD_ORDER");
  if (text == nullptr || std::string_view(text) == "forward") return {};
  if (std::string_view(text) == "reversed") return {ThreadOrder::reversed, 0};
  if (std::string_view(text).starts_with("shuffled:")) {
    return {ThreadOrder::shuffled, std::strtoull(text + std::strlen("shuffled:"), nullptr, 10)};
  }
  fail("RINGTAPE_THREAD_ORDER is '{}': expected forward, reversed or shuffled:SEED", text);
}

OrderSetting& order_setting() {
  static OrderSetting setting = order_from_environment();
  return setting;
}

/// What all workers of one launch share.
struct Launch {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  void (*thread)(const void*);
  const void* context;
  OrderSetting order;

  // The error kept is that of the first block, by number, that fails. Blocks before it all run, those after
  // it need not: so it is the same one whatever the number of workers.
  std::atomic<std::int64_t> first_failed_block = std::numeric_limits<std::int64_t>::max();
  std::mutex mutex{};
  std::exception_ptr error{};

  void report(std::exception_ptr what, std::int64_t block_number) {
    const std::lock_guard lock(mutex);
    if (block_number >= first_failed_block) return;
    error = what;
    first_failed_block = block_number;
  }
};

/// Thrown in a waiting thread to unwind its stack when another thread of the block has failed.
struct Cancelled {};

/// A stack on which threads of a block run one after another. When one of them has to wait, the runner is
/// that thread's until it goes on; the threads that have not begun yet begin on other runners.
struct Runner {
  explicit Runner(std::size_t number) : stack(number) {}
  Stack stack;
  Fiber fiber;
  int rank = 0;            // of the thread it runs
  uint3 index{};           // that thread's threadIdx
  Runner* next = nullptr;  // in the one list it is in
};

/// Runners in a row, linked through themselves: first in, first out.
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

/// Threads waiting for one another at one place.
struct Meeting {
  RunnerList waiting;
  int arrived = 0;
  Place place{};
};

struct Warp;
/// Computes Warp::results of the lanes in `lanes` from what they have brought.
using WarpResult = void (*)(Warp& warp, unsigned lanes, Combine combine);

/// A meeting of the lanes in `mask`.
struct WarpMeeting : Meeting {
  unsigned mask = 0;
  unsigned present = 0;  // lanes that have arrived
  WarpResult result = nullptr;
  Combine combine = nullptr;
};

struct Warp {
  unsigned gone = 0;    // lanes that have returned, or that the block does not have
  unsigned active = 0;  // which of the meetings are in progress
  WarpMeeting meetings[kWarp];
  std::uint64_t words[kWarp];
  std::uint64_t results[kWarp];
  int sources[kWarp];

  unsigned bit_of(const WarpMeeting& meeting) const { return 1u << (&meeting - meetings); }

  /// The meeting in progress under this mask, or one that is free.
  WarpMeeting& meeting_of(unsigned mask) {
    for (unsigned rest = active; rest != 0; rest &= rest - 1) {
      WarpMeeting& meeting = meetings[std::countr_zero(rest)];
      if (meeting.mask == mask) return meeting;
    }
    return meetings[std::countr_one(active)];
  }
};

bool contains(unsigned lanes, int lane) {
  return (lanes >> lane & 1u) != 0;
}

void result_of_sync(Warp&, unsigned, Combine) {}

void result_of_shuffle(Warp& warp, unsigned lanes, Combine) {
  for (int lane = 0; lane < kWarp; ++lane) {
    if (!contains(lanes, lane)) continue;
    const int source = warp.sources[lane];
    warp.results[lane] = warp.words[contains(lanes, source) ? source : lane];
  }
}

void result_of_ballot(Warp& warp, unsigned lanes, Combine) {
  std::uint64_t votes = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    if (contains(lanes, lane)) votes |= warp.words[lane] << lane;
  }
  std::fill_n(warp.results, kWarp, votes);
}

void result_of_combine(Warp& warp, unsigned lanes, Combine combine) {
  std::fill_n(warp.results, kWarp, combine(warp.words, std::popcount(lanes)));
}

bool same(Place a, Place b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

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
  void* dynamic_shared() { return dynamic_shared_.data(); }
  void sync_block(Place place);
  std::uint64_t meet_block(std::uint64_t word, Combine combine, Place place);
  std::uint64_t meet_warp(unsigned mask, std::uint64_t word, int source, WarpResult result, Combine combine,
                          Place place);
  /// The lanes of the running thread's warp that the block has.
  unsigned warp_lanes() const { return ~lanes_beyond_block(running_->rank / kWarp); }

 private:
  void run_threads();
  void begin_block();
  void run_thread();
  void thread_returned(int rank);

  void join(Meeting& meeting, Place place);
  void release(Meeting& meeting);
  void finish_block_meeting();
  bool everybody_present(const Warp& warp, const WarpMeeting& meeting) const;
  void finish_warp_meeting(Warp& warp, WarpMeeting& meeting);
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

  // The block at hand.
  int threads_ = 0;
  int begun_ = 0;  // threads that have begun
  int live_ = 0;   // threads that have not returned
  bool cancelled_ = false;
  std::vector<int> shuffled_;
  RunnerList ready_;
  Meeting block_meeting_;
  Combine block_combine_ = nullptr;  // of block_meeting_; null for a barrier
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(kMaxThreads);
  std::uint64_t result_ = 0;
  std::vector<Warp> warps_ = std::vector<Warp>(kMaxThreads / kWarp);
  DynamicShared dynamic_shared_;

  std::vector<std::unique_ptr<Runner>> runners_;
  RunnerList idle_;  // the one used last in front: its stack is still in the cache
  Runner* running_ = nullptr;
  Fiber caller_;  // of run_blocks
};

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

/// What every runner does, for good: whatever there is to do next.
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
  --live_;
  Warp& warp = warps_[rank / kWarp];
  warp.gone |= 1u << rank % kWarp;
  if (block_meeting_.arrived > 0 && block_meeting_.arrived == live_) finish_block_meeting();
  for (unsigned rest = warp.active; rest != 0 && !cancelled_; rest &= rest - 1) {
    WarpMeeting& meeting = warp.meetings[std::countr_zero(rest)];
    if (everybody_present(warp, meeting)) finish_warp_meeting(warp, meeting);
  }
}

// ---- meetings ----

/// Puts the running thread into the meeting's list; wait() must follow.
void Worker::join(Meeting& meeting, Place place) {
  if (cancelled_) throw Cancelled{};
  if (meeting.arrived == 0) {
    meeting.place = place;
  } else if (!same(meeting.place, place)) {
    fail("{}: thread ({}, {}, {}) waits at {}:{} while others wait at {}:{}", block_text(), threadIdx.x,
         threadIdx.y, threadIdx.z, place.file, place.line, meeting.place.file, meeting.place.line);
  }
  // From here on nothing may throw: a thread in a list must not unwind.
  if (begun_ < threads_ && idle_.empty()) add_idle_runner();
  ++meeting.arrived;
  meeting.waiting.push(running_);
}

void Worker::release(Meeting& meeting) {
  meeting.arrived = 0;
  ready_.take_all(meeting.waiting);
}

void Worker::finish_block_meeting() {
  if (block_combine_ != nullptr) {
    if (live_ < threads_) {
      return fail_block(fmt::format("{} of {} threads have returned without the others, which wait at {}:{}",
                                    threads_ - live_, threads_, block_meeting_.place.file,
                                    block_meeting_.place.line));
    }
    result_ = block_combine_(words_.data(), threads_);
  }
  release(block_meeting_);
}

void Worker::sync_block(Place place) {
  join(block_meeting_, place);
  block_combine_ = nullptr;
  if (block_meeting_.arrived == live_) finish_block_meeting();
  wait();
}

std::uint64_t Worker::meet_block(std::uint64_t word, Combine combine, Place place) {
  words_[running_->rank] = word;
  join(block_meeting_, place);
  block_combine_ = combine;
  if (block_meeting_.arrived == live_) finish_block_meeting();
  wait();
  return result_;
}

bool Worker::everybody_present(const Warp& warp, const WarpMeeting& meeting) const {
  return (meeting.mask & ~meeting.present & ~warp.gone) == 0;
}

void Worker::finish_warp_meeting(Warp& warp, WarpMeeting& meeting) {
  const unsigned missing = meeting.mask & ~meeting.present;
  if (missing != 0 && (kCheck || meeting.result == result_of_combine)) {
    return fail_block(fmt::format("{}:{} names lane {}, which has returned or which the block does not have",
                                  meeting.place.file, meeting.place.line, std::countr_zero(missing)));
  }
  meeting.result(warp, meeting.present, meeting.combine);
  warp.active &= ~warp.bit_of(meeting);
  release(meeting);
}

std::uint64_t Worker::meet_warp(unsigned mask, std::uint64_t word, int source, WarpResult result,
                                Combine combine, Place place) {
  Warp& warp = warps_[running_->rank / kWarp];
  const int lane = running_->rank % kWarp;
  if (!contains(mask, lane)) {
    fail("{}: lane {} calls {}:{} with mask {:#010x}, which leaves it out", block_text(), lane, place.file,
         place.line, mask);
  }
  WarpMeeting& meeting = warp.meeting_of(mask);
  if (meeting.arrived == 0) {
    meeting.mask = mask;
    meeting.present = 0;
    meeting.result = result;
    meeting.combine = combine;
  }
  join(meeting, place);
  warp.active |= warp.bit_of(meeting);
  meeting.present |= 1u << lane;
  warp.words[lane] = word;
  warp.sources[lane] = source;
  if (everybody_present(warp, meeting)) finish_warp_meeting(warp, meeting);
  wait();
  return warp.results[lane];
}

/// Called by a thread that is in a meeting's list. Returns when it has been released and its turn has come.
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

// ---- runners ----

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

/// Who goes on when the running thread waits: a thread that may, or a runner on which another thread can
/// begin.
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

/// Ends the block: threads that have not begun never do, those that wait are woken to unwind.
void Worker::fail_block(std::exception_ptr error) {
  launch_->report(error, block_number_);
  cancelled_ = true;
  live_ -= threads_ - begun_;
  begun_ = threads_;
  release(block_meeting_);
  for (int number = 0; number * kWarp < threads_; ++number) {
    Warp& warp = warps_[number];
    for (; warp.active != 0; warp.active &= warp.active - 1) {
      release(warp.meetings[std::countr_zero(warp.active)]);
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
  std::string text = "threads wait for one another for ever:";
  const auto add = [&](const Meeting& meeting) {
    text += fmt::format(" {} at {}:{},", meeting.arrived, meeting.place.file, meeting.place.line);
  };
  if (block_meeting_.arrived > 0) add(block_meeting_);
  for (int number = 0; number * kWarp < threads_; ++number) {
    const Warp& warp = warps_[number];
    for (unsigned rest = warp.active; rest != 0; rest &= rest - 1) {
      add(warp.meetings[std::countr_zero(rest)]);
    }
  }
  text.pop_back();
  return text;
}

}  // namespace

// ---- the functions of executor.h ----

void set_thread_order(ThreadOrder order, std::uint64_t seed) {
  order_setting() = {order, seed};
}

ThreadOrderScope::ThreadOrderScope(ThreadOrder order, std::uint64_t seed)
    : previous_order_(order_setting().order), previous_seed_(order_setting().seed) {
  set_thread_order(order, seed);
}

ThreadOrderScope::~ThreadOrderScope() {
  set_thread_order(previous_order_, previous_seed_);
}

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, void (*thread)(const void*),
              const void* context) {
  const std::int64_t blocks = std::int64_t{grid.x} * grid.y * grid.z;
  const std::int64_t threads = std::int64_t{block.x} * block.y * block.z;
  if (blocks == 0 || threads == 0) return;
  check(threads <= kMaxThreads, "launch with {} x {} x {} threads in a block: expected at most {}", block.x,
        block.y, block.z, kMaxThreads);
  check(grid.y <= kMaxGridYZ && grid.z <= kMaxGridYZ,
        "launch with {} x {} x {} blocks: expected at most {} in y and z, as in CUDA", grid.x, grid.y, grid.z,
        kMaxGridYZ);
  check(!Worker::current().busy(), "launch from inside a kernel");

  Launch launch{grid, block, shared_bytes, thread, context, order_setting()};
  const auto run = [&](std::int64_t first, std::int64_t last) {
    try {
      Worker::current().run_blocks(launch, first, last);
    } catch (...) {
      launch.report(std::current_exception(), first);
    }
  };
  const bool one_worker = kCheck || omp_in_parallel();
  const int workers =
      one_worker ? 1 : static_cast<int>(std::min<std::int64_t>(blocks, omp_get_max_threads()));
  if (workers == 1) {
    run(0, blocks);
  } else {
#pragma omp parallel num_threads(workers)
    {
      const int worker = omp_get_thread_num(), team = omp_get_num_threads();
      run(blocks * worker / team, blocks * (worker + 1) / team);
    }
  }
  if (launch.error) std::rethrow_exception(launch.error);
}

int thread_rank() {
  return Worker::current().rank();
}

void* dynamic_shared_bytes() {
  return Worker::current().dynamic_shared();
}

void sync_block(Place place) {
  Worker::current().sync_block(place);
}

void sync_warp(unsigned mask, Place place) {
  Worker::current().meet_warp(mask, 0, 0, result_of_sync, nullptr, place);
}

std::uint64_t shuffle_word(unsigned mask, std::uint64_t word, int source, Place place) {
  return Worker::current().meet_warp(mask, word, source, result_of_shuffle, nullptr, place);
}

unsigned ballot(unsigned mask, bool predicate, Place place) {
  const std::uint64_t word = predicate ? 1 : 0;
  return static_cast<unsigned>(Worker::current().meet_warp(mask, word, 0, result_of_ballot, nullptr, place));
}

std::uint64_t meet_block(std::uint64_t word, Combine combine, Place place) {
  return Worker::current().meet_block(word, combine, place);
}

std::uint64_t meet_warp(std::uint64_t word, Combine combine, Place place) {
  Worker& worker = Worker::current();
  return worker.meet_warp(worker.warp_lanes(), word, 0, result_of_combine, combine, place);
}

}  // namespace ringtape::simt
