#pragma once

#include "kernels/arena.h"
#include "kernels/common/launcher.h"

namespace ringtape {

/// Per-parameter factors of one SGD step, computed on the device before the step.
struct alignas(16) SgdCoefficients {
  float learning_rate;
  float weight_decay;
  float momentum;         ///< of the old buffer: 0 on the parameter's first step
  float gradient_weight;  ///< of the new gradient: 1 on the first step, then 1 - dampening
};

/// Stochastic gradient descent with momentum (Sutskever et al., "On the importance of initialization and
/// momentum in deep learning", 2013; Nesterov's form as PyTorch writes it).
struct SgdStep {
  ArenaView arena;
  float* momentum_buffer;  ///< b, of the length of the arena or the rank's shard; null if momentum is 0
  std::int64_t* steps;     ///< [parameter_count]: steps each parameter took; this launch adds 1
  SgdCoefficients* coefficients;  ///< [parameter_count], scratch
  double momentum;
  double dampening;
  bool nesterov;
};

}  // namespace ringtape

/// One step over the whole arena, as PyTorch computes it. With g the unscaled gradient times the clip factor,
/// per element:
///   g = g + weight_decay * w
///   b = g on a parameter's first step, then b = momentum * b + (1 - dampening) * g
///   w = w - lr * (nesterov ? g + momentum * b : b)
/// and without momentum w = w - lr * g. One small launch for the coefficients, one over the tiles.
RINGTAPE_LAUNCHER(sgd_step, const SgdStep& step);
