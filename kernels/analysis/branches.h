#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace ringtape::analysis {

/// The paths of a warp's lanes at each branch of a kernel. The compiler reports the start of each basic block
/// (-fsanitize-coverage=trace-pc) and each comparison (trace-cmp); the last comparison before the next basic
/// block is assumed to be the branch's condition.
class Branches {
 public:
  /// A branch, at the address of its condition's code.
  struct Counts {
    std::uintptr_t code = 0;
    std::int64_t executions = 0;  // once for each warp
    std::int64_t divergent = 0;   // lanes took different paths
  };

  explicit Branches(int threads) : threads_(static_cast<std::size_t>(threads)) {}
  void clear_counts();
  const std::vector<Counts>& counts() const { return counts_; }

  void begin_block();
  void compares(int thread, std::uintptr_t code) { threads_[thread].condition = code; }
  /// The thread enters the basic block at `code`; 0 when it returns.
  void enters(int thread, std::uintptr_t code);
  /// Compares the paths of a warp's `lanes` since their last barrier.
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
  // One execution of a branch: the paths of the lanes compared so far.
  struct Visit {
    std::uintptr_t to;
    bool divergent;
  };
  struct LinedUp {
    std::size_t visits = 0;  // of the current lane
    std::vector<Visit> all;
  };

  std::vector<Thread> threads_;
  std::unordered_map<std::uintptr_t, int> numbers_;  // of branches
  std::vector<Counts> counts_;
  std::vector<LinedUp> lined_up_;
};

}  // namespace ringtape::analysis
