#pragma once

#include "optim/optimizer.h"

namespace ringtape {

/// The hyperparameters of LARS (You et al., 2017).
struct LarsOptions {
  double learning_rate = 1;
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 1e-3;
  double eps = 1e-8;
};

/// LARS (You et al., "Large batch training of convolutional networks", 2017, arXiv:1708.03888): SGD with
/// momentum in which each parameter's gradient, decay included, is scaled by a local rate trust_coefficient *
/// ||w|| / (||g|| + weight_decay * ||w|| + eps). The local rate is 1 if either norm is 0, and for a parameter
/// without a trust ratio: by default one of fewer than two dimensions (see ParameterGroup::use_trust_ratio).
/// The formulas are in kernels/lars.h. Learning rates are about a thousand times higher than for SGD, since
/// the trust coefficient is 0.001. Parameters without a trust ratio, by default biases, take plain momentum
/// SGD steps at that full rate; a group's lr_scale lowers it for them.
///
/// Implementations differ in:
/// - The form of the update. The paper has no eps, and keeps the learning rate inside the momentum:
///   v = m v + lr * local * (g + decay w), w = w - v. The two are the same at a constant rate; when it
///   changes, the form here (also in timm and in apex's LARC around PyTorch's SGD) applies the new rate to
///   all of v at once.
/// - The scaled parameters. timm scales only parameters with weight decay, unless an option is set; apex's
///   LARC scales all, and omits the decay of a parameter if a norm is 0.
/// - Clipping. LARC by default takes min(local / lr, 1) as the local rate, with a coefficient of 0.02.
class Lars : public Optimizer {
 public:
  /// Throws Error for a momentum, trust coefficient or eps that is not finite or is negative.
  explicit Lars(ParameterArena& arena, const LarsOptions& options = {},
                const std::vector<ParameterGroup>& groups = {});
  /// "momentum_buffer".
  std::vector<NamedTensor> state() const override;

 protected:
  void launch_step(const ArenaView& view) override;

 private:
  LarsOptions options_;
  Tensor momentum_buffer_;
  Tensor tile_norms_;
  Tensor norms_;
};

}  // namespace ringtape
