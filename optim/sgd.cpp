#include "optim/sgd.h"

#include <cmath>

#include "autograd/creation.h"
#include "core/error.h"
#include "core/stream.h"
#include "kernels/sgd.h"
#include "optim/setting.h"

namespace ringtape {

SGD::SGD(ParameterArena& arena, const SGDOptions& options, const std::vector<ParameterGroup>& groups)
    : Optimizer(arena, options.learning_rate, options.weight_decay, groups), options_(options) {
  check_setting("SGD", "momentum", options.momentum);
  check(std::isfinite(options.dampening), "SGD: dampening must be finite, found {}", options.dampening);
  check(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
        "SGD: Nesterov needs a momentum above 0 and a dampening of 0, found {} and {}", options.momentum,
        options.dampening);
  if (options.momentum > 0) momentum_buffer_ = make_state();
  steps_ = zeros({parameter_count()}, DType::i64, arena.device());
  coefficients_ = make_scratch<SgdCoefficients>(parameter_count());
}

std::vector<NamedTensor> SGD::state() const {
  std::vector<NamedTensor> state = {{"step", steps_}};
  if (momentum_buffer_.defined()) state.push_back({"momentum_buffer", momentum_buffer_});
  return state;
}

void SGD::launch_step(const ArenaView& view) {
  SgdStep step{};
  step.arena = view;
  step.momentum_buffer = momentum_buffer_.defined() ? momentum_buffer_.data<float>() : nullptr;
  step.steps = steps_.data<std::int64_t>();
  step.coefficients = static_cast<SgdCoefficients*>(coefficients_.raw());
  step.momentum = options_.momentum;
  step.dampening = options_.dampening;
  step.nesterov = options_.nesterov;
  // Decay 2 and the step 2; with momentum a buffer that is read and written, 3 more, for Nesterov's form 5.
  if (momentum_buffer_.defined()) {
    add_step_work(view, options_.nesterov ? 9 : 7, 20);
  } else {
    add_step_work(view, 4, 12);
  }
  sgd_step(Stream::current(arena().device()), step);
}

}  // namespace ringtape
