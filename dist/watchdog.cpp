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

std::uint64_t Watchdog::begin(std::string rank_name, const Call& call, Seconds timeout, Hint hint) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = next_++;
  watched_.emplace(id, Watched{std::move(rank_name), call, timeout, deadline, std::move(hint)});
  // With equal timeouts this wakes the thread once a timeout, not once an operation.
  if (deadline < wakes_at_) changed_.notify_one();
  return id;
}

void Watchdog::hold(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (const auto found = watched_.find(id); found != watched_.end())
    found->second.deadline = Clock::time_point::max();
}

void Watchdog::restart(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  found->second.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(found->second.timeout);
  if (found->second.deadline < wakes_at_) changed_.notify_one();
}

void Watchdog::end(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  watched_.erase(id);
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
