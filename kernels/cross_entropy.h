#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// The arguments of all cross-entropy kernels. logits [rows, classes] row-major; targets [rows] of i32 or
/// i64.
///
/// With x a row, t its target, e the label smoothing and p = softmax(x), the loss of a row is, as in PyTorch,
///   (1 - e) * -log p[t]  +  e / classes * sum over j of -log p[j],
/// 0 for a row whose target is ignore_index. The total is the rows' sum divided by `*divisor`, the number of
/// non-ignored targets for the mean (count_targets), null for the sum, and by `host_divisor`. With the mean
/// and no such target it is NaN, as in PyTorch, and all gradients are 0.
///
/// A target outside [0, classes) that is not ignore_index is an error: nothing is read out of bounds, the row
/// counts as ignored, and the forward and fused kernels set *invalid_target to 1 + the index of such a row.
/// The caller zeroes it before, and reads it when it next waits for the device.
///
/// With `correct`, the forward and fused kernels also write the count of count_correct(): up to 32 classes in
/// the same launch.
struct CrossEntropyProblem {
  DType dtype;         ///< of the logits: f32, bf16, f16, f64 (CPU)
  DType target_dtype;  ///< i32 or i64
  const void* targets;
  std::int64_t rows;
  std::int64_t classes;  ///< at most 2^30
  std::int64_t ignore_index;
  double label_smoothing;
  const float* divisor;  ///< on the device, or null for 1
  int* invalid_target;   ///< on the device
  double host_divisor = 1;
  float* correct = nullptr;  ///< on the device, for the forward and fused kernels; null: not counted
};

}  // namespace ringtape

/// count = number of targets that are not ignore_index; targets [rows] of i32 or i64.
RINGTAPE_LAUNCHER(count_targets, DType target_dtype, const void* targets, std::int64_t rows,
                  std::int64_t ignore_index, float* count);

/// Reads the logits once, with a running maximum and sum (Milakov and Gimelshein, "Online normalizer
/// calculation for softmax", 2018). Writes
///   stats [rows, 2]: the row's maximum m and the sum s of exp(x - m), f32 (f64 for f64); m + log s is its
///     log-sum-exp, but kept apart m and s stay exact for large logits too. On a GPU the largest f32 or
///     16-bit logit of a row of more than 32 must lie between -2^30 and 2^30 (ExpInOneStep in softmax.h), or
///     the loss is NaN;
///   row_loss [rows]: f32 (f64 for f64), or null;
///   loss: the total, f32 (f64 for f64).
RINGTAPE_LAUNCHER(cross_entropy_forward, const CrossEntropyProblem& problem, const void* logits, void* stats,
                  void* row_loss, void* loss);

/// dlogits (+)= (p - (1 - e) * onehot(t) - e / classes) * grad_loss / both divisors, 0 for an ignored row; p
/// from the stats of the forward. grad_loss: a scalar on the device, f32 (f64 for f64), or null for 1.
/// dlogits may be the logits unless `accumulate`.
RINGTAPE_LAUNCHER(cross_entropy_backward, const CrossEntropyProblem& problem, const void* logits,
                  const void* stats, const void* grad_loss, void* dlogits, bool accumulate);

/// Forward and backward at once: writes the loss, and replaces the logits by their gradient for a grad_loss
/// of 1. The logits are read once and written once where a row fits in shared memory (shared_memory() in
/// cross_entropy_many_classes.h).
RINGTAPE_LAUNCHER(cross_entropy_fused, const CrossEntropyProblem& problem, void* logits, void* loss);

/// correct (+)= number of rows whose target has the largest logit (the first of equals); ignored rows, rows
/// with an invalid target and rows with a NaN do not count. Uses only the problem's dtypes, targets, sizes
/// and ignore_index. Exact up to 2^24.
RINGTAPE_LAUNCHER(count_correct, const CrossEntropyProblem& problem, const void* logits, float* correct,
                  bool accumulate);
