#pragma once

#include <optional>

#include "optim/checkpoint_folder.h"
#include "train/options.h"

namespace ringtape {

/// A run's checkpoints, as CheckpointOptions say. On other ranks than the first there are none.
class Checkpointing {
 public:
  /// The setting that holds the number of steps of the run, where the schedule depends on it.
  static constexpr const char* kStepsInAll = "steps in all";

  /// `settings`: what a checkpoint has to have been made with. Throws Error for a folder that holds
  /// checkpoints when they are not to be resumed.
  Checkpointing(const CheckpointOptions& options, TrainingSettings settings, bool is_first_rank);

  /// To resume with a checkpoint to go on from: restores `tensors` and random numbers. The
  /// checkpoint has the position and the history; nothing where the run starts afresh.
  std::optional<Checkpoint> resume(const std::vector<NamedTensor>& tensors);

  /// Whether a checkpoint is to follow step `step` of `steps`: every so many steps, and the last. The same on
  /// all ranks, since they have to bring together what is to be saved.
  bool is_due(std::int64_t step, std::int64_t steps) const;
  /// On the first rank. A checkpoint that cannot be written, as on a full disk, is a warning: training goes
  /// on, with the older ones.
  void save(const TrainingPosition& position, std::vector<NamedTensor> tensors,
            std::vector<NamedTensor> history);

  bool are_kept() const { return folder_.has_value(); }

 private:
  void expect_settings(const Checkpoint& checkpoint) const;

  CheckpointOptions options_;
  TrainingSettings settings_;
  std::optional<CheckpointFolder> folder_;
};

}  // namespace ringtape
