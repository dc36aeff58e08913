#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// Softmax and cross-entropy of each row of logits[rows, classes], f32: loss[row] = log(sum of exp(logits)) -
/// logit of the target, and gradient[row] = (softmax - 1 at the target) / rows. Both sizes are multiples of
/// 64, classes at most 8192; every target lies in [0, classes).
struct SoftmaxProblem {
  const float* logits;
  const int* targets;
  float* loss;
  float* gradient;
  int rows;
  int classes;
};

}  // namespace ringtape

RINGTAPE_LAUNCHER(softmax_naive, const SoftmaxProblem& problem);
RINGTAPE_LAUNCHER(softmax_block_per_row, const SoftmaxProblem& problem);
RINGTAPE_LAUNCHER(softmax_online, const SoftmaxProblem& problem);
RINGTAPE_LAUNCHER(softmax_vectorised, const SoftmaxProblem& problem);
RINGTAPE_LAUNCHER(softmax_staged, const SoftmaxProblem& problem);
