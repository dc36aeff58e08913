#include "optim/adam.h"

#include "autograd/creation.h"
#include "core/error.h"
#include "core/stream.h"
#include "kernels/adam.h"
#include "optim/setting.h"

namespace ringtape {

Adam::Adam(ParameterArena& arena, const AdamOptions& options, const std::vector<ParameterGroup>& groups,
           bool decoupled_decay)
    : Optimizer(arena, options.learning_rate, options.weight_decay, groups),
      options_(options),
      decoupled_decay_(decoupled_decay) {
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "Adam: betas must be in [0, 1), found {} and {}", options.beta1, options.beta2);
  check_positive_setting("Adam", "eps", options.eps);
  first_moment_ = make_state();
  second_moment_ = make_state();
  steps_ = zeros({parameter_count()}, DType::i64, arena.device());
  coefficients_ = make_scratch<AdamCoefficients>(parameter_count());
}

AdamW::AdamW(ParameterArena& arena, const AdamWOptions& options, const std::vector<ParameterGroup>& groups)
    : Adam(arena,
           {.learning_rate = options.learning_rate,
            .beta1 = options.beta1,
            .beta2 = options.beta2,
            .eps = options.eps,
            .weight_decay = options.weight_decay},
           groups, true) {}

std::vector<NamedTensor> Adam::state() const {
  return {{"exp_avg", first_moment_}, {"exp_avg_sq", second_moment_}, {"step", steps_}};
}

void Adam::launch_step(const ArenaView& view) {
  AdamStep step{};
  step.arena = view;
  step.first_moment = first_moment_.data<float>();
  step.second_moment = second_moment_.data<float>();
  step.steps = steps_.data<std::int64_t>();
  step.coefficients = static_cast<AdamCoefficients*>(coefficients_.raw());
  step.beta1 = options_.beta1;
  step.beta2 = options_.beta2;
  step.eps = options_.eps;
  step.decoupled_decay = decoupled_decay_;
  // Decay 2, first moment 3, second moment 4, the quotient and its subtraction 5. Four arrays are read, three
  // written.
  add_step_work(view, 14, 28);
  adam_step(Stream::current(arena().device()), step);
}

}  // namespace ringtape
