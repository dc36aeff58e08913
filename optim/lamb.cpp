#include "optim/lamb.h"

#include "autograd/creation.h"
#include "core/error.h"
#include "core/stream.h"
#include "optim/setting.h"

namespace ringtape {

Lamb::Lamb(ParameterArena& arena, const LambOptions& options, const std::vector<ParameterGroup>& groups)
    : Optimizer(arena, options.learning_rate, options.weight_decay, groups), options_(options) {
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "LAMB: betas must be in [0, 1), found {} and {}", options.beta1, options.beta2);
  check_positive_setting("LAMB", "eps", options.eps);
  check(options.min_ratio >= 0 && options.max_ratio >= options.min_ratio,
        "LAMB: the trust ratio's limits must be at least 0 and in order, found {} and {}", options.min_ratio,
        options.max_ratio);
  first_moment_ = make_state();
  second_moment_ = make_state();
  steps_ = zeros({parameter_count()}, DType::i64, arena.device());
  coefficients_ = make_scratch<LambCoefficients>(parameter_count());
  tile_norms_ = make_scratch<SquaredNorms>(arena.tile_count());
  static_assert(sizeof(SquaredNorms) == 2 * sizeof(double));
  const MemoryScope scope(MemoryCategory::workspace);
  norms_ = empty({parameter_count(), 2}, DType::f64, arena.device());
}

std::vector<NamedTensor> Lamb::state() const {
  return {{"exp_avg", first_moment_}, {"exp_avg_sq", second_moment_}, {"step", steps_}};
}

void Lamb::launch_step(const ArenaView& view) {
  LambStep step{};
  step.arena = view;
  step.first_moment = first_moment_.data<float>();
  step.second_moment = second_moment_.data<float>();
  step.steps = steps_.data<std::int64_t>();
  step.coefficients = static_cast<LambCoefficients*>(coefficients_.raw());
  step.tile_norms = static_cast<SquaredNorms*>(tile_norms_.raw());
  step.norms = static_cast<SquaredNorms*>(norms_.raw());
  step.beta1 = options_.beta1;
  step.beta2 = options_.beta2;
  step.eps = options_.eps;
  step.debias = options_.debias;
  step.min_ratio = options_.min_ratio;
  step.max_ratio = options_.max_ratio;
  // Moments 7, the update 6 and once more after the norms, squares of value and update 4, the step 2.
  add_step_work(view, 25, 40);
  const Stream stream = Stream::current(arena().device());
  lamb_norms(stream, step);
  sum_over_ranks(norms_);
  lamb_values(stream, step);
}

}  // namespace ringtape
