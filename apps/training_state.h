#pragma once

#include <optional>
#include <vector>

#include "apps/checkpointing.h"
#include "dist/communicator.h"
#include "nn/arena.h"
#include "nn/module.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"

namespace ringtape::apps {

/// What training changes, and its way into checkpoints and out of them. All ranks call each function.
class TrainingState {
 public:
  /// `scaler` may be null. The parts have to outlive this.
  TrainingState(Module& model, ParameterArena& arena, Optimizer& optimizer, LossScaler* scaler,
                Communicator& ranks)
      : model_(model), arena_(arena), optimizer_(optimizer), scaler_(scaler), ranks_(ranks) {}

  /// All of it on rank 0, as a checkpoint names it. What other ranks have of the optimizer's state is brought
  /// together.
  std::vector<NamedTensor> gather();

  /// Where training goes on: restores rank 0 from the newest of the checkpoints, if there is one, and from
  /// rank 0 all others. `resumed` is that checkpoint, on rank 0.
  TrainingPosition resume(Checkpointing& checkpoints, std::optional<Checkpoint>& resumed);
  /// Where training begins when nothing is resumed: gives all ranks what rank 0 begins with.
  TrainingPosition share_from_first(const TrainingPosition& at);

 private:
  std::vector<NamedTensor> with(const std::vector<NamedTensor>& of_optimizer);
  std::vector<NamedTensor> in_full();

  Module& model_;
  ParameterArena& arena_;
  Optimizer& optimizer_;
  LossScaler* scaler_;
  Communicator& ranks_;
};

}  // namespace ringtape::apps
