#pragma once

#include <limits>

#include "kernels/lamb.h"
#include "optim/optimizer.h"

namespace ringtape {

/// The hyperparameters of LAMB (You et al., 2020).
struct LambOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;  ///< outside the square root
  double weight_decay = 1e-2;
  LambDebias debias = LambDebias::in_norm;
  double min_ratio = 0;  ///< limits of the trust ratio
  double max_ratio = std::numeric_limits<double>::infinity();
};

/// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020,
/// arXiv:1904.00962): Adam's update plus weight_decay * w, scaled for each parameter by the trust ratio
/// ||w|| / ||update||. The ratio is 1 if either norm is 0, and for a parameter without a trust ratio: by
/// default one of fewer than two dimensions (see ParameterGroup::use_trust_ratio). The formulas are in
/// kernels/lamb.h.
///
/// Implementations differ in:
/// - Bias correction. Inside the norm: the paper as published (Algorithm 2), NVIDIA's apex, timm, current
///   DeepSpeed. Outside the norm: older releases of DeepSpeed, which multiplied the learning rate by
///   sqrt(1 - beta2^t) / (1 - beta1^t), a slow warm-up. None: the paper's third version on arXiv,
///   pytorch-lamb, which follows it, and bias_correction=False elsewhere. Inside the norm and without decay
///   the correction cancels except for eps, since the ratio cancels any common factor of the update; it does
///   not cancel for a parameter without a trust ratio.
/// - The parameters with a trust ratio. In apex and timm only parameters with weight decay, unless an option
///   is set (use_nvlamb, always_adapt); in pytorch-lamb all. Here it is a separate flag.
/// - The ratio's limits. The paper limits ||w|| (its function phi) and leaves the limits open; DeepSpeed
///   limits the ratio to [0.01, 10], timm's trust_clip to at most 1. Here it is not limited by default.
/// - Clipping. apex and timm also clip the gradients' global norm to 1; here clip_grad_norm() does it.
class Lamb : public Optimizer {
 public:
  /// Throws Error for betas outside [0, 1), an eps that is not finite and positive, and limits of the ratio
  /// that are negative, NaN or in the wrong order.
  explicit Lamb(ParameterArena& arena, const LambOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});
  /// "exp_avg", "exp_avg_sq" and "step".
  std::vector<NamedTensor> state() const override;

 protected:
  void launch_step(const ArenaView& view) override;

 private:
  LambOptions options_;
  Tensor first_moment_;
  Tensor second_moment_;
  Tensor steps_;
  Tensor coefficients_;
  Tensor tile_norms_;
  Tensor norms_;
};

}  // namespace ringtape
