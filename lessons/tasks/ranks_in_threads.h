#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <span>
#include <string>
#include <vector>

/// Ranks as threads of one process, which pass messages round a ring.
namespace ringtape::tasks {

class RanksInThreads {
 public:
  explicit RanksInThreads(int ranks);

  /// Runs `program(rank)` on every rank at the same time. Throws Error with the first rank's error, or where
  /// all ranks that still run wait for a message that nobody has sent.
  void run(const std::function<void(int rank)>& program);

  /// Called by a rank: sends to the next one, and waits for the message of the one before. Throws Error where
  /// that has another length than `in`.
  void exchange(int rank, std::span<const float> out, std::span<float> in);
  /// The number of exchanges that this rank has called.
  int exchanges(int rank) const { return exchanges_[static_cast<std::size_t>(rank)]; }

 private:
  void stop(const std::string& why);
  bool all_wait() const;

  int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::queue<std::vector<float>>> inbox_;
  std::vector<bool> waiting_, running_;
  std::vector<int> exchanges_;
  std::string failure_;  // of the first rank that failed
};

}  // namespace ringtape::tasks
