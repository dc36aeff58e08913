#include "train/training_state.h"

#include <cstdint>
#include <string>

#include "autograd/creation.h"
#include "core/random.h"
#include "dist/model_parts.h"
#include "dist/optimizer_state.h"
#include "dist/stage_parts.h"
#include "nn/model_file.h"

namespace ringtape {
namespace {

/// The beginning of a weight's name in a checkpoint.
const std::string kWeight = "model.";

}  // namespace

std::vector<NamedTensor> TrainingState::gather() {
  const std::vector<NamedTensor> weights = gather_weights(model_, arena_, *mesh_.data_and_context());
  return of_all_stages(
      of_stage(with(weights, gather_optimizer_state(optimizer_, *mesh_.data_and_context()))));
}

TrainingPosition TrainingState::resume(Checkpointing& checkpoints, std::optional<Checkpoint>& resumed,
                                       const std::function<void()>& barrier) {
  const std::vector<NamedTensor> of_optimizer = gather_optimizer_state(optimizer_, *mesh_.data_and_context());
  const std::vector<NamedTensor> parts = with(weights_of(model_), of_optimizer);
  const std::vector<NamedTensor> own = of_stage(parts), all = of_all_stages(own);
  resumed = checkpoints.resume(all);
  barrier();
  if (has_stage()) scatter_stages(*stages_, all, own, along(MeshDimension::pipeline));
  if (divides_layers() && mesh_.data_and_context()->rank() == 0) {
    scatter_wholes(model_, own, parts, along(MeshDimension::tensor));
  }
  if ((stages_ != nullptr || divides_layers()) && mesh_.data_and_context()->rank() == 0)
    arena_.bump_versions();
  scatter_optimizer_state(optimizer_, *mesh_.data_and_context(), of_optimizer);
  return broadcast_from_first(resumed ? resumed->position() : TrainingPosition{});
}

TrainingPosition TrainingState::broadcast_from_first(const TrainingPosition& at) {
  Communicator& world = *mesh_.world();
  if (world.size() == 1) return at;
  Generator& random = default_generator();
  const std::vector<std::int64_t> own = {at.step, at.epoch, at.samples,
                                         static_cast<std::int64_t>(random.seed),
                                         static_cast<std::int64_t>(random.offset)};
  const Tensor shared = copy_to(from_vector(own, {std::ssize(own)}), world.device());
  world.broadcast(shared, 0).wait();
  const std::vector<std::int64_t> found = shared.to_vector<std::int64_t>();
  random.seed = static_cast<std::uint64_t>(found[3]);
  random.offset = static_cast<std::uint64_t>(found[4]);
  std::vector<Work> broadcasts;
  for (const NamedParameter& parameter : model_.named_parameters()) {
    if (!parameter.tensor->requires_grad()) {
      broadcasts.push_back(mesh_.data_and_context()->broadcast(*parameter.tensor, 0));
    }
  }
  for (const auto& [name, tensor] : trained(weights_of(model_))) {
    // With ZeRO 3 each rank gets its slices of the weights when DataParallel is constructed.
    if (!arena_.has_all_values() && name.starts_with(kWeight)) continue;
    broadcasts.push_back(mesh_.data_and_context()->broadcast(tensor, 0));
  }
  for (const Work& work : broadcasts) work.wait();
  if (scaler_ != nullptr) scaler_->loaded();
  return {.step = found[0], .epoch = found[1], .samples = found[2]};
}

/// On the first of the ranks that divide the layers: the whole tensors of this stage. On other ranks the
/// result is not used.
std::vector<NamedTensor> TrainingState::of_stage(const std::vector<NamedTensor>& parts) {
  if (!divides_layers() || mesh_.data_and_context()->rank() != 0) return parts;
  return gather_wholes(model_, parts, along(MeshDimension::tensor));
}

/// On rank 0: the tensors of the whole model.
std::vector<NamedTensor> TrainingState::of_all_stages(const std::vector<NamedTensor>& of_stage) {
  return has_stage() ? gather_stages(*stages_, of_stage, along(MeshDimension::pipeline)) : of_stage;
}

/// Whether there are several stages and this rank has the whole tensors of one of them.
bool TrainingState::has_stage() const {
  return stages_ != nullptr && mesh_.data_and_context()->rank() == 0 &&
         along(MeshDimension::tensor).rank() == 0;
}

std::vector<NamedTensor> TrainingState::with(const std::vector<NamedTensor>& weights,
                                             const std::vector<NamedTensor>& of_optimizer) {
  std::vector<NamedTensor> tensors = trained(weights);
  for (const auto& [name, tensor] : of_optimizer) tensors.push_back({"optimizer." + name, tensor});
  return tensors;
}

/// The tensors that training changes, besides the optimizer's state. They are equal on all ranks with the
/// same part of the model until a DataParallel shards it.
std::vector<NamedTensor> TrainingState::trained(const std::vector<NamedTensor>& weights) {
  std::vector<NamedTensor> tensors;
  const std::vector<NamedParameter> parameters = model_.named_parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].tensor->requires_grad())
      tensors.push_back({kWeight + weights[i].name, weights[i].tensor});
  }
  tensors.push_back({"optimizer.skipped_updates", optimizer_.skipped_updates()});
  if (scaler_ != nullptr) {
    for (const auto& [name, tensor] : scaler_->state()) tensors.push_back({"scaler." + name, tensor});
  }
  return tensors;
}

}  // namespace ringtape
