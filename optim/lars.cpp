#include "optim/lars.h"

#include "core/stream.h"
#include "kernels/lars.h"
#include "optim/setting.h"

namespace ringtape {

Lars::Lars(ParameterArena& arena, const LarsOptions& options, const std::vector<ParameterGroup>& groups)
    : Optimizer(arena, options.learning_rate, options.weight_decay, groups), options_(options) {
  check_setting("LARS", "momentum", options.momentum);
  check_setting("LARS", "the trust coefficient", options.trust_coefficient);
  check_setting("LARS", "eps", options.eps);
  momentum_buffer_ = make_state();
  tile_norms_ = make_scratch<SquaredNorms>(arena.tile_count());
  static_assert(sizeof(SquaredNorms) == 2 * sizeof(double));
  const MemoryScope scope(MemoryCategory::workspace);
  norms_ = empty({parameter_count(), 2}, DType::f64, arena.device());
}

std::vector<NamedTensor> Lars::state() const {
  return {{"momentum_buffer", momentum_buffer_}};
}

void Lars::launch_step(const ArenaView& view) {
  LarsStep step{};
  step.arena = view;
  step.momentum_buffer = momentum_buffer_.data<float>();
  step.tile_norms = static_cast<SquaredNorms*>(tile_norms_.raw());
  step.norms = static_cast<SquaredNorms*>(norms_.raw());
  step.momentum = options_.momentum;
  step.trust_coefficient = options_.trust_coefficient;
  step.eps = options_.eps;
  // Squares of value and gradient 4, momentum 5, the step 2.
  add_step_work(view, 11, 28);
  const Stream stream = Stream::current(arena().device());
  lars_norms(stream, step);
  sum_over_ranks(norms_);
  lars_values(stream, step);
}

}  // namespace ringtape
