#pragma once

#include <optional>
#include <vector>

#include "dist/communicator.h"
#include "nn/arena.h"
#include "nn/module.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "train/checkpointing.h"

namespace ringtape {

/// All that training changes (weights, optimizer state, loss scale, random numbers), and its way into
/// checkpoints and out of them. All ranks call each function.
class TrainingState {
 public:
  /// `scaler` may be null. The parts have to outlive this.
  TrainingState(Module& model, ParameterArena& arena, Optimizer& optimizer, LossScaler* scaler,
                Communicator& comm)
      : model_(model), arena_(arena), optimizer_(optimizer), scaler_(scaler), comm_(comm) {}

  /// All of it on rank 0, as a checkpoint names it. Shards of the optimizer's state are gathered.
  std::vector<NamedTensor> gather();

  /// Where training goes on: restores rank 0 from the newest of the checkpoints, if there is one, and from
  /// rank 0 all others. `resumed` is that checkpoint, on rank 0.
  TrainingPosition resume(Checkpointing& checkpoints, std::optional<Checkpoint>& resumed);
  /// Where training begins when nothing is resumed: broadcasts the state of rank 0.
  TrainingPosition broadcast_from_first(const TrainingPosition& at);

 private:
  std::vector<NamedTensor> with(const std::vector<NamedTensor>& of_optimizer);
  std::vector<NamedTensor> replicated();

  Module& model_;
  ParameterArena& arena_;
  Optimizer& optimizer_;
  LossScaler* scaler_;
  Communicator& comm_;
};

}  // namespace ringtape
