#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "dist/mesh.h"
#include "nn/arena.h"
#include "nn/module.h"
#include "nn/stages.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "train/checkpointing.h"

namespace ringtape {

/// The state that training changes (weights, optimizer state, loss scale, random generator): gathers it for
/// checkpoints and restores it. All ranks must call each function.
class TrainingState {
 public:
  /// `scaler` is null without a loss scale, `stages` without a pipeline. The arguments must outlive this
  /// object.
  TrainingState(Module& model, ParameterArena& arena, Optimizer& optimizer, LossScaler* scaler,
                const Mesh& mesh, const Stages* stages = nullptr)
      : model_(model), arena_(arena), optimizer_(optimizer), scaler_(scaler), mesh_(mesh), stages_(stages) {}

  /// The whole state on rank 0, under the names used in checkpoints. Shards of the optimizer state and parts
  /// of the model are gathered. Frozen parameters are left out: training does not change them, and a resumed
  /// run must have made or loaded the same ones (Trainer::Run::checkpoint_settings() has their checksum).
  std::vector<NamedTensor> gather();

  /// Restores rank 0 from the newest checkpoint, if there is one, and all other ranks from rank 0. Returns
  /// the position at which training continues. Sets `resumed` to the checkpoint on rank 0, which alone reads
  /// it; after that each rank calls `barrier`.
  TrainingPosition resume(Checkpointing& checkpoints, std::optional<Checkpoint>& resumed,
                          const std::function<void()>& barrier);
  /// For training without a resume: broadcasts the position `at` and the random generator of rank 0, and the
  /// weights of the first of the data x context ranks with the same part of the model. Returns the position
  /// at which training begins.
  TrainingPosition broadcast_from_first(const TrainingPosition& at);

 private:
  Communicator& along(MeshDimension dimension) const { return *mesh_.along(dimension); }
  bool divides_layers() const { return mesh_.sizes().divide_layers(); }
  std::vector<NamedTensor> of_stage(const std::vector<NamedTensor>& parts);
  std::vector<NamedTensor> of_all_stages(const std::vector<NamedTensor>& of_stage);
  bool has_stage() const;
  std::vector<NamedTensor> with(const std::vector<NamedTensor>& weights,
                                const std::vector<NamedTensor>& of_optimizer);
  std::vector<NamedTensor> trained(const std::vector<NamedTensor>& weights);

  Module& model_;
  ParameterArena& arena_;
  Optimizer& optimizer_;
  LossScaler* scaler_;
  const Mesh& mesh_;
  const Stages* stages_;
};

}  // namespace ringtape
