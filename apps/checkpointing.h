#pragma once

#include <optional>

#include "apps/options.h"
#include "optim/checkpoint_folder.h"

namespace ringtape::apps {

/// A run's checkpoints: --checkpoint, --every, --keep and --resume. Without --checkpoint there are none, and
/// on other ranks than the first neither.
class Checkpointing {
 public:
  /// `settings`: what a checkpoint has to have been made with. Throws Error for a folder that holds
  /// checkpoints when they are not to be resumed.
  Checkpointing(const TrainOptions& options, TrainingSettings settings, bool is_first_rank);

  /// With --resume and a checkpoint to go on from: restores `tensors` and random numbers, and says so on
  /// standard output. The checkpoint has the position and the history; nothing where the run starts afresh.
  std::optional<Checkpoint> resume(const std::vector<NamedTensor>& tensors);

  /// Whether a checkpoint is to follow update `step` of `updates`: every --every, and the last. The same on
  /// all ranks, since they have to bring together what is to be saved.
  bool is_due(std::int64_t step, std::int64_t updates) const;
  /// On the first rank.
  void save(const TrainingPosition& position, std::vector<NamedTensor> tensors,
            std::vector<NamedTensor> history);

  bool are_kept() const { return folder_.has_value(); }

 private:
  const TrainOptions& options_;
  TrainingSettings settings_;
  std::optional<CheckpointFolder> folder_;
};

}  // namespace ringtape::apps
