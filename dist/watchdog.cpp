#include "dist/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/error.h"

namespace ringtape {
namespace {

// When one rank ends, the launcher ends the others. They wait for the same peer, so they are about to report
// it too.
constexpr std::chrono::milliseconds kTimeForOthersToTell{500};

}  // namespace

void end_process(const std::string& text) {
  const std::string line = "error: " + text + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  std::this_thread::sleep_for(kTimeForOthersToTell);
  std::_Exit(1);
}

Watchdog::Watchdog() : thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Watchdog::Watch Watchdog::begin(std::string rank_name, const Call& call, Seconds timeout, Hint hint) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = next_++;
  watched_.emplace(id, Watched{std::move(rank_name), call, timeout, deadline, std::move(hint)});
  // With equal timeouts this wakes the thread once a timeout, not once an operation.
  if (deadline < wakes_at_) changed_.notify_one();
  return Watch(*this, id);
}

void Watchdog::Watch::hold() {
  if (watchdog_ == nullptr) return;
  const std::lock_guard lock(watchdog_->mutex_);
  watchdog_->watched_.at(id_).deadline = Clock::time_point::max();
}

void Watchdog::Watch::restart() {
  if (watchdog_ == nullptr) return;
  const std::lock_guard lock(watchdog_->mutex_);
  Watched& watched = watchdog_->watched_.at(id_);
  watched.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(watched.timeout);
  if (watched.deadline < watchdog_->wakes_at_) watchdog_->changed_.notify_one();
}

void Watchdog::Watch::end() {
  Watchdog* const watchdog = std::exchange(watchdog_, nullptr);
  if (watchdog == nullptr) return;
  const std::lock_guard lock(watchdog->mutex_);
  watchdog->watched_.erase(id_);
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    wakes_at_ = Clock::time_point::max();
    for (const auto& [id, watched] : watched_) {
      if (watched.deadline <= Clock::now()) {
        end_process(
            fmt::format("{}: {} did not finish within {:g} s: {}", watched.rank_name, describe(watched.call),
                        watched.timeout.count(),
                        watched.hint ? watched.hint() : "a rank is dead, hangs, or called something else"));
      }
      wakes_at_ = std::min(wakes_at_, watched.deadline);
    }
    if (wakes_at_ == Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, wakes_at_);
    }
  }
}

}  // namespace ringtape
