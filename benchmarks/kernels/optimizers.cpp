#include "benchmarks/kernels/arena.h"
#include "benchmarks/kernels/loops.h"
#include "optim/registry.h"
#include "trace/spans.h"

namespace ringtape::kernel_cases {
namespace {

/// An optimizer of the registry and the arena that it works on.
struct Stepper {
  Stepper(const OptimizerKind& kind, const OptimizerSettings& settings, DType compute_dtype, const Size& size,
          Device device)
      : parameters(size, device, compute_dtype), optimizer(kind.make(parameters.arena(), settings, {})) {}

  void step() {
    parameters.clip_and_skip();
    optimizer->step();
  }

  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
};

/// The work of a step for each element, as the optimizer's class states it (Optimizer::add_step_work).
SpanWork work_of(const OptimizerKind& kind, const OptimizerSettings& settings, DType compute_dtype) {
  Stepper stepper(kind, settings, compute_dtype, {kArenaMultiple}, Device{});
  SpanRecording recording;
  {
    const SpanScope scope(SpanKind::operation, "step");
    stepper.step();
  }
  recording.stop();
  SpanWork work;
  for (const Span& span : recording.spans()) work += span.work;
  return {.flops = work.flops / kArenaMultiple, .bytes = work.bytes / kArenaMultiple};
}

/// AdamW's step as a plain loop.
void loop_step(Stepper& stepper) {
  const ParameterArena& arena = stepper.parameters.arena();
  const std::vector<NamedTensor> state = stepper.optimizer->state();
  loop_adamw(arena.values().data<float>(), arena.gradients().data<float>(), state[0].tensor.data<float>(),
             state[1].tensor.data<float>(), arena.size());
}

/// `what` describes how the step differs from the ordinary one.
Case step_case(const OptimizerKind& kind, const std::string& suffix, const std::string& what,
               const OptimizerSettings& settings, DType compute_dtype) {
  const SpanWork work = work_of(kind, settings, compute_dtype);
  return {.name = kind.name + suffix,
          .does = "a step of " + kind.name + what,
          .bytes = static_cast<double>(work.bytes),
          .flops = static_cast<double>(work.flops),
          .prepare =
              [=](Setup& s, const Size& size) {
                const auto stepper = std::make_shared<Stepper>(kind, settings, compute_dtype, size, s.device);
                s.launch = [=](const Stream&) { stepper->step(); };
                if (kind.name == "adamw" && compute_dtype == DType::f32)
                  s.loop = [=] { loop_step(*stepper); };
              },
          .measured = Measured::parameters,
          .row = kind.name + suffix + "_step",
          .columns = kArenaMultiple};
}

}  // namespace

std::vector<Case> optimizer_cases() {
  std::vector<Case> all;
  for (const OptimizerKind& kind : optimizers()) {
    OptimizerSettings plain = kind.defaults;
    plain.momentum = 0;
    const bool can_do_without = kind.state_per_parameter(plain) < kind.state_per_parameter(kind.defaults);
    if (can_do_without) all.push_back(step_case(kind, "", " without momentum", plain, DType::f32));
    all.push_back(step_case(kind, can_do_without ? "_momentum" : "", "", kind.defaults, DType::f32));
    all.push_back(step_case(kind, "_bf16", " with a bf16 copy", kind.defaults, DType::bf16));
  }
  return all;
}

}  // namespace ringtape::kernel_cases
