#include "lessons/tasks/ranks_in_threads.h"

#include <algorithm>
#include <thread>

#include "lessons/tasks/tests.h"

namespace ringtape::tasks {

RanksInThreads::RanksInThreads(int ranks)
    : ranks_(ranks),
      inbox_(static_cast<std::size_t>(ranks)),
      waiting_(static_cast<std::size_t>(ranks)),
      running_(static_cast<std::size_t>(ranks)),
      exchanges_(static_cast<std::size_t>(ranks)) {}

void RanksInThreads::run(const std::function<void(int rank)>& program) {
  running_.assign(running_.size(), true);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks_; ++rank) {
    threads.emplace_back([this, &program, rank] {
      std::string error;
      try {
        program(rank);
      } catch (const std::exception& caught) {
        error = caught.what();
      }
      const std::lock_guard lock(mutex_);
      running_[static_cast<std::size_t>(rank)] = false;
      if (!error.empty()) stop(error);
      if (all_wait())
        stop("ranks wait for a message that nobody sends: do all ranks call exchange equally often?");
      changed_.notify_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!failure_.empty()) throw Error(failure_);
}

void RanksInThreads::exchange(int rank, std::span<const float> out, std::span<float> in) {
  const auto self = static_cast<std::size_t>(rank);
  std::unique_lock lock(mutex_);
  ++exchanges_[self];
  inbox_[(self + 1) % inbox_.size()].emplace(out.begin(), out.end());
  changed_.notify_all();
  waiting_[self] = true;
  if (all_wait())
    stop("ranks wait for a message that nobody sends: do all ranks call exchange equally often?");
  changed_.wait(lock, [&] { return !inbox_[self].empty() || !failure_.empty(); });
  waiting_[self] = false;
  if (!failure_.empty()) throw Error(failure_);
  const std::vector<float> message = std::move(inbox_[self].front());
  inbox_[self].pop();
  if (message.size() != in.size()) {
    wrong("rank {} makes room for {} elements, and the rank before sends {}", rank, in.size(),
          message.size());
  }
  std::copy(message.begin(), message.end(), in.begin());
}

void RanksInThreads::stop(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  changed_.notify_all();
}

/// Whether every rank that runs waits, and none of them has a message.
bool RanksInThreads::all_wait() const {
  bool any = false;
  for (std::size_t rank = 0; rank < inbox_.size(); ++rank) {
    if (!running_[rank]) continue;
    if (!waiting_[rank] || !inbox_[rank].empty()) return false;
    any = true;
  }
  return any;
}

}  // namespace ringtape::tasks
