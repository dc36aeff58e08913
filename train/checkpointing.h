#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "optim/checkpoint_folder.h"
#include "train/options.h"

namespace ringtape {

/// A run's checkpoints, by CheckpointOptions. Only the first rank writes and reads them.
class Checkpointing {
 public:
  /// The setting that holds the run's number of steps; present only if the schedule depends on it.
  static constexpr const char* kStepsInAll = "steps in all";
  /// The setting that holds the number of warm-up steps.
  static constexpr const char* kWarmup = "--warmup";

  /// The setting kWarmup of a run of `steps` steps; null if the warm-up does not depend on the length.
  using WarmupOfLength = std::function<std::string(std::int64_t steps)>;

  /// `settings`: resume() accepts only a checkpoint with the same settings; with `options.change_length`
  /// another length and its warm-up by `warmup`. Throws Error for a folder that holds checkpoints, unless
  /// `options.resume` is set, and for one that cannot be created, written or locked.
  Checkpointing(const CheckpointOptions& options, TrainingSettings settings, WarmupOfLength warmup,
                bool is_first_rank);

  /// Restores `tensors` and the default random generator from the newest checkpoint, and returns the
  /// checkpoint, with its position and history; nothing if the run starts from scratch. Throws Error for a
  /// checkpoint with other settings or tensors, and if all checkpoints are damaged.
  std::optional<Checkpoint> resume(const std::vector<NamedTensor>& tensors);

  /// True if a checkpoint is due after step `step` of `steps`: every `options.every` steps, and after the
  /// last step. Returns the same on all ranks, since all of them gather the state.
  bool is_due(std::int64_t step, std::int64_t steps) const;
  /// Writes a checkpoint on the first rank; does nothing on the others. If it cannot be written, as on a full
  /// disk, or an old one cannot be removed, prints a warning: training continues, and older checkpoints stay.
  void save(const TrainingPosition& position, std::vector<NamedTensor> tensors,
            std::vector<NamedTensor> history);
  /// Why the last call of save() failed; empty if the checkpoint was written.
  const std::string& failure() const { return failure_; }

 private:
  void expect_settings(const Checkpoint& checkpoint) const;

  CheckpointOptions options_;
  TrainingSettings settings_;
  WarmupOfLength warmup_;
  std::optional<CheckpointFolder> folder_;
  std::string failure_;
};

}  // namespace ringtape
