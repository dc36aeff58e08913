#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "dist/call.h"
#include "dist/communicator.h"

namespace ringtape {

/// Prints "error: TEXT" to standard error and ends the process with code 1, at once, without joining threads:
/// no destructor runs, so none can wait for a peer that will not answer.
[[noreturn]] void end_process(const std::string& text);

/// Ends the process when an operation takes too long. A rank cannot tell a peer that is dead from a peer that
/// hangs, is cut off, or waits in another operation. So a separate thread watches every operation from its
/// call to its completion; if the operation waits for earlier ones, from their end (hold(), restart()).
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  /// Returns the end of the message about a late operation; called by the watchdog's thread.
  using Hint = std::function<std::string()>;

  /// A watched operation. Watching ends with end() or the destructor, so also when an exception is thrown.
  /// After end(), hold() and restart() do nothing. The watchdog must outlive it.
  class [[nodiscard]] Watch {
   public:
    Watch(Watch&& other) noexcept : watchdog_(std::exchange(other.watchdog_, nullptr)), id_(other.id_) {}
    ~Watch() { end(); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /// The operation waits for one before it: it has no deadline until restart().
    void hold();
    /// The operation begins only now: its deadline is `timeout` from here.
    void restart();
    /// The operation is complete, or has failed.
    void end();

   private:
    friend class Watchdog;
    Watch(Watchdog& watchdog, std::uint64_t id) : watchdog_(&watchdog), id_(id) {}

    Watchdog* watchdog_;  // null once it has ended, or was moved from
    std::uint64_t id_;
  };

  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Begins to watch `call` of the rank named `rank_name` ("rank 1 of 4").
  Watch begin(std::string rank_name, const Call& call, Seconds timeout, Hint hint = nullptr);

 private:
  struct Watched {
    std::string rank_name;
    Call call;
    Seconds timeout;
    Clock::time_point deadline;
    Hint hint;
  };
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Watched> watched_;
  std::uint64_t next_ = 0;
  Clock::time_point wakes_at_ = Clock::time_point::max();
  bool stopped_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace ringtape
