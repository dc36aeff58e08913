#include "optim/loss_scaler.h"

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/stream.h"
#include "kernels/clip.h"
#include "kernels/loss_scale.h"
#include "optim/setting.h"

namespace ringtape {

LossScaler::LossScaler(ParameterArena& arena, const LossScalerOptions& options)
    : arena_(arena), options_(options) {
  check(arena.loss_scale() == nullptr, "loss scale: the arena already has a scaler, expected one");
  for (const ArenaEntry& entry : arena.entries()) {
    check(!entry.meta->grad_written,
          "loss scale: {} has a gradient already, which is not scaled: expected the scaler before the first "
          "backward(), or after zero_grad()",
          entry.name);
  }
  check_positive_setting("loss scale", "the initial scale", options.initial_scale);
  check_positive_setting("loss scale", "the floor", options.floor);
  check(options.floor <= options.initial_scale,
        "loss scale: expected an initial scale of at least the floor, found {} and {}", options.initial_scale,
        options.floor);
  check_positive_setting("loss scale", "the growth factor", options.growth_factor);
  check(static_cast<float>(options.growth_factor) > 1,
        "loss scale: the growth factor must be above 1, found {}", options.growth_factor);
  check_positive_setting("loss scale", "the backoff factor", options.backoff_factor);
  check(static_cast<float>(options.backoff_factor) < 1,
        "loss scale: the backoff factor must be between 0 and 1, found {}", options.backoff_factor);
  check(options.growth_interval >= 1, "loss scale: the growth interval must be at least 1 step, found {}",
        options.growth_interval);
  const Device device = arena.device();
  scale_ = full({}, options.initial_scale, DType::f32, device);
  growth_tracker_ = zeros({}, DType::i32, device);
  overflows_at_floor_ = zeros({}, DType::i32, device);
  check(options.world_size >= 1, "loss scale: expected at least one rank, found {}", options.world_size);
  factor_ = options.world_size == 1 ? scale_ : empty({}, DType::f32, device);
  divide_by_ranks();
  arena.set_loss_scale(factor_.data<float>());
}

void LossScaler::divide_by_ranks() {
  if (options_.world_size == 1) return;
  const NoGrad no_grad;
  factor_.copy_from(ringtape::scale(scale_, 1.0 / options_.world_size));
}

void LossScaler::backward(const Tensor& loss) const {
  Tape::current().backward(loss, factor_);
}

void LossScaler::update() {
  const auto* const norm = static_cast<const GradientNorm*>(arena_.norm_result().raw());
  const LossScaleRule rule{.growth_factor = static_cast<float>(options_.growth_factor),
                           .backoff_factor = static_cast<float>(options_.backoff_factor),
                           .growth_interval = options_.growth_interval,
                           .floor = static_cast<float>(options_.floor)};
  const LossScaleState state{.scale = scale_.data<float>(),
                             .growth_tracker = growth_tracker_.data<std::int32_t>(),
                             .overflows_at_floor = overflows_at_floor_.data<std::int32_t>()};
  update_loss_scale(Stream::current(scale_.device()), &norm->nonfinite, rule, state);
  divide_by_ranks();
}

void LossScaler::check_can_go_on() const {
  if (overflows_at_floor_.item() < kOverflowsToGiveUp) return;
  fail(
      "f16 training stops: gradients overflowed in each of the last {} steps although the loss scale is at "
      "its floor of {}; a smaller learning rate may help, and bf16 and f32 have more range",
      kOverflowsToGiveUp, options_.floor);
}

std::vector<NamedTensor> LossScaler::state() const {
  return {
      {"scale", scale_}, {"growth_tracker", growth_tracker_}, {"overflows_at_floor", overflows_at_floor_}};
}

}  // namespace ringtape
