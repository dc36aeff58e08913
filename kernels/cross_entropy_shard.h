#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// Cross-entropy of logits whose classes are sharded over ranks (Shoeybi et al., "Megatron-LM: Training
/// multi-billion parameter language models using model parallelism", 2019): this rank has logits
/// [rows, classes], for the classes from `first_class` on. targets [rows], i32 or i64, are numbers among all
/// classes.
///
/// With x a row over all ranks and t its target, the loss of a row is -log softmax(x)[t], 0 where t is
/// ignore_index. For its own classes a rank computes the maximum m_r, the sum s_r of exp(x - m_r) and the
/// target's logit, 0 if another rank has it. From the values of all ranks follow m = max m_r,
/// s = sum of s_r exp(m_r - m), and the loss m + log s - x[t].
struct CrossEntropyShard {
  DType dtype;         ///< of the logits: f32, bf16, f16, f64 (CPU)
  DType target_dtype;  ///< i32 or i64
  const void* targets;
  std::int64_t rows;
  std::int64_t classes;  ///< of this rank
  std::int64_t first_class;
  std::int64_t all_classes;
  std::int64_t ignore_index;
  double divisor;       ///< of the sum of the rows' losses
  int* invalid_target;  ///< on the device: see CrossEntropyProblem
};

}  // namespace ringtape

/// statistics [rows, 3] of this rank: m_r, s_r and the target's logit, f32 (f64 for f64).
RINGTAPE_LAUNCHER(cross_entropy_shard_statistics, const CrossEntropyShard& problem, const void* logits,
                  void* statistics);

/// From the statistics of all ranks, [ranks, rows, 3]: stats [rows, 2], m and s, and the loss, f32 (f64 for
/// f64). The order of the additions depends on the shape alone.
RINGTAPE_LAUNCHER(cross_entropy_shard_loss, const CrossEntropyShard& problem, const void* statistics,
                  int ranks, void* stats, void* loss);

/// dlogits (+)= (exp(x - m) / s - onehot(t)) * grad_loss / divisor, 0 for an ignored row. dlogits may be the
/// logits unless `accumulate`.
RINGTAPE_LAUNCHER(cross_entropy_shard_backward, const CrossEntropyShard& problem, const void* logits,
                  const void* stats, const void* grad_loss, void* dlogits, bool accumulate);
