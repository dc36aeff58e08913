#include "kernels/analysis/branches.h"

namespace ringtape::analysis {

void Branches::clear_counts() {
  numbers_.clear();
  counts_.clear();
  lined_up_.clear();
  begin_block();
}

void Branches::begin_block() {
  for (Thread& thread : threads_) {
    thread.condition = 0;
    thread.steps.clear();
  }
}

void Branches::enters(int number, std::uintptr_t code) {
  Thread& thread = threads_[number];
  if (thread.condition != 0) {
    const auto [at, is_new] = numbers_.try_emplace(thread.condition, static_cast<int>(counts_.size()));
    if (is_new) {
      counts_.push_back({thread.condition});
      lined_up_.emplace_back();
    }
    thread.steps.push_back({at->second, code});
  }
  thread.condition = 0;
}

void Branches::line_up(int warp, unsigned lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1u) == 0) continue;
    Thread& thread = threads_[warp * 32 + lane];
    for (const Step& step : thread.steps) {
      LinedUp& branch = lined_up_[step.branch];
      if (branch.visits == branch.all.size()) {
        branch.all.push_back({step.to, false});
      } else if (branch.all[branch.visits].to != step.to) {
        branch.all[branch.visits].divergent = true;
      }
      ++branch.visits;
    }
    for (const Step& step : thread.steps) lined_up_[step.branch].visits = 0;
    thread.steps.clear();
  }
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_[i].executions += static_cast<std::int64_t>(lined_up_[i].all.size());
    for (const Visit& visit : lined_up_[i].all) counts_[i].divergent += visit.divergent;
    lined_up_[i].all.clear();
  }
}

}  // namespace ringtape::analysis
