#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace ringtape::analysis {

/// Which way the lanes of a warp go at each branch of a kernel. The compiler reports where a straight piece
/// of code begins (-fsanitize-coverage=trace-pc) and where two values are compared (trace-cmp); the last
/// comparison before the next piece is taken for the branch's condition.
class Branches {
 public:
  /// A branch, at the address of its condition's code.
  struct Counts {
    std::uintptr_t code = 0;
    std::int64_t executions = 0;  // once for each warp that comes by
    std::int64_t divergent = 0;   // of these: lanes went different ways
  };

  explicit Branches(int threads) : threads_(static_cast<std::size_t>(threads)) {}
  void clear_counts();
  const std::vector<Counts>& counts() const { return counts_; }

  void begin_block();
  void compares(int thread, std::uintptr_t code) { threads_[thread].condition = code; }
  /// The thread goes on at `code`; 0 when it returns.
  void enters(int thread, std::uintptr_t code);
  /// Compares the ways of a warp's `lanes` since they met last.
  void line_up(int warp, unsigned lanes);

 private:
  struct Step {
    int branch;
    std::uintptr_t to;
  };
  struct Thread {
    std::uintptr_t condition = 0;
    std::vector<Step> steps;
  };
  // How the lanes lined up so far went on from a branch, one time of many.
  struct Visit {
    std::uintptr_t to;
    bool divergent;
  };
  struct LinedUp {
    std::size_t visits = 0;  // of the lane at hand
    std::vector<Visit> all;
  };

  std::vector<Thread> threads_;
  std::unordered_map<std::uintptr_t, int> numbers_;  // of branches
  std::vector<Counts> counts_;
  std::vector<LinedUp> lined_up_;
};

}  // namespace ringtape::analysis
