#pragma once

#include <optional>
#include <string>
#include <vector>

#include "optim/checkpoint_folder.h"
#include "train/options.h"

namespace ringtape {

/// A run's checkpoints, by CheckpointOptions. Only the first rank writes and reads them.
class Checkpointing {
 public:
  /// The setting that holds the run's number of steps, if the schedule depends on it.
  static constexpr const char* kStepsInAll = "steps in all";
  /// The one that holds the steps of warm-up.
  static constexpr const char* kWarmup = "--warmup";

  /// `settings`: a checkpoint must have been made with the same ones. Throws Error for a folder that holds
  /// checkpoints, unless `options` resume them.
  Checkpointing(const CheckpointOptions& options, TrainingSettings settings, bool is_first_rank);

  /// Restores `tensors` and the random generator from the newest checkpoint, and returns it, with the
  /// position and the history; nothing if the run starts from scratch.
  std::optional<Checkpoint> resume(const std::vector<NamedTensor>& tensors);

  /// True if a checkpoint is due after step `step` of `steps`: at every interval, and after the last. The
  /// same on all ranks, since all of them gather the state.
  bool is_due(std::int64_t step, std::int64_t steps) const;
  /// On the first rank. If a checkpoint cannot be written, as on a full disk, or an old one not removed, it
  /// prints a warning; training continues, and older checkpoints stay.
  void save(const TrainingPosition& position, std::vector<NamedTensor> tensors,
            std::vector<NamedTensor> history);
  /// Why the last checkpoint was not saved; empty if it was.
  const std::string& failure() const { return failure_; }

 private:
  void expect_settings(const Checkpoint& checkpoint) const;

  CheckpointOptions options_;
  TrainingSettings settings_;
  std::optional<CheckpointFolder> folder_;
  std::string failure_;
};

}  // namespace ringtape
