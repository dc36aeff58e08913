#include "train/training_state.h"

#include <cstdint>

#include "autograd/creation.h"
#include "core/random.h"
#include "dist/model_parts.h"
#include "dist/optimizer_state.h"
#include "io/checksum.h"

namespace ringtape {

std::vector<NamedTensor> TrainingState::gather() {
  arena_.gather_values();
  return wholes_of(with(gather_optimizer_state(optimizer_, *mesh_.of_mean())));
}

TrainingPosition TrainingState::resume(Checkpointing& checkpoints, std::optional<Checkpoint>& resumed) {
  const std::vector<NamedTensor> of_optimizer = gather_optimizer_state(optimizer_, *mesh_.of_mean());
  const std::vector<NamedTensor> parts = with(of_optimizer), wholes = wholes_of(parts);
  resumed = checkpoints.resume(wholes);
  if (divides_model() && mesh_.of_mean()->rank() == 0) {
    scatter_wholes(model_, wholes, parts, *mesh_.along(MeshDimension::tensor));
    arena_.bump_versions();
  }
  scatter_optimizer_state(optimizer_, *mesh_.of_mean(), of_optimizer);
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
  for (const NamedParameter& parameter : model_.named_parameters()) {
    if (!parameter.tensor->requires_grad()) mesh_.of_mean()->broadcast(*parameter.tensor, 0).wait();
  }
  for (const auto& [name, tensor] : trained()) mesh_.of_mean()->broadcast(tensor, 0).wait();
  return {.step = found[0], .epoch = found[1], .samples = found[2]};
}

bool TrainingState::divides_model() const {
  return mesh_.along(MeshDimension::tensor)->size() > 1;
}

/// On the first rank: the tensors of the whole model. Elsewhere no file is written from them.
std::vector<NamedTensor> TrainingState::wholes_of(const std::vector<NamedTensor>& parts) {
  if (!divides_model() || mesh_.of_mean()->rank() != 0) return parts;
  return gather_wholes(model_, parts, *mesh_.along(MeshDimension::tensor));
}

std::vector<NamedTensor> TrainingState::with(const std::vector<NamedTensor>& of_optimizer) {
  std::vector<NamedTensor> tensors = trained();
  for (const auto& [name, tensor] : of_optimizer) tensors.push_back({"optimizer." + name, tensor});
  return tensors;
}

/// The tensors that training changes, besides the optimizer's state: equal on all ranks with the same part of
/// the model.
std::vector<NamedTensor> TrainingState::trained() {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : model_.named_parameters()) {
    if (tensor->requires_grad()) tensors.push_back({"model." + name, *tensor});
  }
  tensors.push_back({"optimizer.skipped_updates", optimizer_.skipped_updates()});
  if (scaler_ != nullptr) {
    for (const auto& [name, tensor] : scaler_->state()) tensors.push_back({"scaler." + name, tensor});
  }
  return tensors;
}

std::uint32_t checksum_of_frozen(Module& model) {
  std::uint32_t checksum = 0;
  for (const NamedParameter& parameter : model.named_parameters()) {
    if (parameter.tensor->requires_grad()) continue;
    const std::vector<float> values = parameter.tensor->to_vector<float>();
    checksum = crc32(checksum, values.data(), values.size() * sizeof(float));
  }
  return checksum;
}

}  // namespace ringtape
