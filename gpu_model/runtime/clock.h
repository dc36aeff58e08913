#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpu_model {

/// An operation's position: number `tick` (from 1 on) of its lane. A lane is a sequence of operations in
/// order: a stream, or a branch of a graph.
struct Stamp {
  std::size_t lane = 0;
  std::uint64_t tick = 0;  ///< 0: before everything

  bool operator==(const Stamp&) const = default;
};

/// The operations ordered before an operation, or before the host's next action: for each lane, all up to a
/// tick (a vector clock: Mattern, "Virtual time and global states of distributed systems", 1989).
class Clock {
 public:
  bool knows(Stamp stamp) const {
    return stamp.tick == 0 || (stamp.lane < ticks_.size() && ticks_[stamp.lane] >= stamp.tick);
  }
  void merge(const Clock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }
  /// The clock of an operation without the operation itself, whose stamp it is.
  Clock without(Stamp stamp) const {
    Clock before = *this;
    before.ticks_[stamp.lane] = stamp.tick - 1;
    return before;
  }
  void set(Stamp stamp) {
    if (ticks_.size() <= stamp.lane) ticks_.resize(stamp.lane + 1);
    ticks_[stamp.lane] = std::max(ticks_[stamp.lane], stamp.tick);
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

}  // namespace gpu_model
