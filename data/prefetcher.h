#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ringtape {

/// Makes items 0, 1, ..., count - 1 on other threads and hands them out in that order. At most `depth` items
/// are made ahead. A thread is woken only when there is room for several items, because waking it costs more
/// than making a small item. Threads never spin. With no threads, next() makes each item itself.
template <class Item>
class Prefetcher {
 public:
  /// `make(i)` returns item i; with several threads they call it at the same time.
  Prefetcher(std::int64_t count, int threads, std::int64_t depth, std::function<Item(std::int64_t)> make)
      : count_(count), burst_(std::max<std::int64_t>(1, depth / 2)), make_(std::move(make)) {
    slots_.resize(static_cast<std::size_t>(threads > 0 ? depth : 0));
    try {
      for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Prefetcher() { stop(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next item, or nothing after the last one. An exception of make() is rethrown here, in place of its
  /// item; no item follows it.
  std::optional<Item> next() {
    if (taken_ == count_) return std::nullopt;
    if (workers_.empty()) {
      const std::int64_t index = std::exchange(taken_, count_);
      std::optional<Item> item(make_(index));
      taken_ = index + 1;
      return item;
    }
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(taken_);
    item_ready_.wait(lock, [&slot] { return slot.item || slot.error; });
    if (slot.error) {
      taken_ = count_;
      stopping_ = true;
      room_for_burst_.notify_all();
      std::rethrow_exception(std::exchange(slot.error, nullptr));
    }
    std::optional<Item> item = std::exchange(slot.item, std::nullopt);
    ++taken_;
    // Only the call that makes the room large enough wakes a worker, which wakes the next one if there is
    // room left.
    const bool wake = waiting_workers_ > 0 && room() == std::min(burst_, count_ - started_);
    lock.unlock();
    if (wake) room_for_burst_.notify_one();
    return item;
  }

 private:
  struct Slot {
    std::optional<Item> item;
    std::exception_ptr error;
  };

  Slot& slot_of(std::int64_t index) { return slots_[static_cast<std::size_t>(index) % slots_.size()]; }

  // Slots that are free and not promised to a worker.
  std::int64_t room() const { return taken_ + static_cast<std::int64_t>(slots_.size()) - started_; }

  // The number of items that a worker may start now: a whole burst (the last one may be shorter), or none.
  std::int64_t next_burst() const {
    const std::int64_t wanted = std::min(burst_, count_ - started_);
    return room() >= wanted ? wanted : 0;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (!stopping_ && started_ < count_) {
      if (next_burst() == 0) {
        ++waiting_workers_;
        room_for_burst_.wait(lock, [this] { return stopping_ || started_ == count_ || next_burst() > 0; });
        --waiting_workers_;
        continue;
      }
      const std::int64_t first = started_;
      started_ += next_burst();
      const std::int64_t last = started_;
      if (waiting_workers_ > 0 && next_burst() > 0) room_for_burst_.notify_one();
      for (std::int64_t index = first; index < last && !stopping_; ++index) {
        lock.unlock();
        Slot made = make_slot(index);
        lock.lock();
        slot_of(index) = std::move(made);
        if (index == taken_) item_ready_.notify_one();
      }
    }
    room_for_burst_.notify_all();  // no item is left to start: other waiting workers can end too
  }

  Slot make_slot(std::int64_t index) {
    try {
      return {make_(index), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_for_burst_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  const std::int64_t count_;
  const std::int64_t burst_;
  const std::function<Item(std::int64_t)> make_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable item_ready_;
  std::condition_variable room_for_burst_;
  std::vector<Slot> slots_;   // item i waits in slot i modulo their number
  std::int64_t started_ = 0;  // items that a worker has begun
  std::int64_t taken_ = 0;    // items handed out
  int waiting_workers_ = 0;
  bool stopping_ = false;

  std::vector<std::thread> workers_;
};

}  // namespace ringtape
