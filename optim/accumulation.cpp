#include "optim/accumulation.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace ringtape {

std::vector<MicroBatch> cut_into_micro_batches(std::int64_t samples, std::int64_t micro_batch) {
  check(samples >= 0 && micro_batch > 0,
        "micro-batches: {} samples cannot be divided into micro-batches of {}", samples, micro_batch);
  std::vector<MicroBatch> pieces;
  for (std::int64_t first = 0; first < samples; first += micro_batch) {
    pieces.push_back({first, std::min(micro_batch, samples - first)});
  }
  return pieces;
}

AccumulationWindow::AccumulationWindow(std::int64_t world_size, SumOverRanks sum_over_ranks)
    : world_size_(world_size), sum_over_ranks_(std::move(sum_over_ranks)) {
  check(world_size > 0 && (world_size == 1 || sum_over_ranks_ != nullptr),
        "accumulation window: {} ranks need a SumOverRanks", world_size);
}

void AccumulationWindow::begin(std::int64_t own_targets) {
  check(own_targets >= 0, "accumulation window: found {} targets, expected at least 0", own_targets);
  begin_with_all(sum_over_ranks_ ? sum_over_ranks_(own_targets) : own_targets);
}

void AccumulationWindow::begin_with_all(std::int64_t targets) {
  check(targets >= 0, "accumulation window: found {} targets on all ranks, expected at least 0", targets);
  targets_ = targets;
}

double AccumulationWindow::divisor() const {
  return targets_ == 0 ? 1 : static_cast<double>(targets_) / static_cast<double>(world_size_);
}

}  // namespace ringtape
