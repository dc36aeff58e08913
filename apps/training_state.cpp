#include "apps/training_state.h"

#include <cstdint>

#include "apps/setup.h"
#include "autograd/creation.h"
#include "core/random.h"
#include "dist/optimizer_state.h"

namespace ringtape::apps {

std::vector<NamedTensor> TrainingState::gather() {
  arena_.gather_values();
  return with(gather_optimizer_state(optimizer_, ranks_));
}

TrainingPosition TrainingState::resume(Checkpointing& checkpoints, std::optional<Checkpoint>& resumed) {
  const std::vector<NamedTensor> of_optimizer = gather_optimizer_state(optimizer_, ranks_);
  resumed = checkpoints.resume(with(of_optimizer));
  scatter_optimizer_state(optimizer_, ranks_, of_optimizer);
  return share_from_first(resumed ? resumed->position() : TrainingPosition{});
}

TrainingPosition TrainingState::share_from_first(const TrainingPosition& at) {
  if (ranks_.size() == 1) return at;
  Generator& random = default_generator();
  const std::vector<std::int64_t> own = {at.step, at.epoch, at.samples,
                                         static_cast<std::int64_t>(random.seed),
                                         static_cast<std::int64_t>(random.offset)};
  const Tensor shared = copy_to(from_vector(own, {std::ssize(own)}), ranks_.device());
  ranks_.broadcast(shared, 0).wait();
  const std::vector<std::int64_t> found = shared.to_vector<std::int64_t>();
  random.seed = static_cast<std::uint64_t>(found[3]);
  random.offset = static_cast<std::uint64_t>(found[4]);
  for (const auto& [name, tensor] : in_full()) ranks_.broadcast(tensor, 0).wait();
  return {.step = found[0], .epoch = found[1], .samples = found[2]};
}

std::vector<NamedTensor> TrainingState::with(const std::vector<NamedTensor>& of_optimizer) {
  std::vector<NamedTensor> tensors = in_full();
  for (const auto& [name, tensor] : of_optimizer) tensors.push_back({"optimizer." + name, tensor});
  return tensors;
}

/// What each rank has all of.
std::vector<NamedTensor> TrainingState::in_full() {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : weights_of(model_)) tensors.push_back({"model." + name, tensor});
  tensors.push_back({"optimizer.skipped_updates", optimizer_.skipped_updates()});
  if (scaler_ != nullptr) {
    for (const auto& [name, tensor] : scaler_->state()) tensors.push_back({"scaler." + name, tensor});
  }
  return tensors;
}

}  // namespace ringtape::apps
