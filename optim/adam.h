#pragma once

#include "optim/optimizer.h"

namespace ringtape {

/// torch.optim.Adam's arguments and defaults; the decay is added to the gradient.
struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

/// Adam (Kingma and Ba, "Adam: a method for stochastic optimization", 2015) as PyTorch computes it: weight
/// decay is added to the gradient; eps is added outside the square root, after the bias correction. The
/// formulas are in kernels/adam.h. Throws Error for betas outside [0, 1) and an eps that is not positive.
class Adam : public Optimizer {
 public:
  explicit Adam(ParameterArena& arena, const AdamOptions& options = {},
                const std::vector<ParameterGroup>& groups = {})
      : Adam(arena, options, groups, false) {}
  /// "exp_avg", "exp_avg_sq" and "step".
  std::vector<NamedTensor> state() const override;

 protected:
  Adam(ParameterArena& arena, const AdamOptions& options, const std::vector<ParameterGroup>& groups,
       bool decoupled_decay);
  void launch_step(const ArenaView& view) override;

 private:
  AdamOptions options_;
  bool decoupled_decay_;
  Tensor first_moment_;
  Tensor second_moment_;
  Tensor steps_;
  Tensor coefficients_;
};

/// torch.optim.AdamW's arguments and defaults; the decay is decoupled from the gradient.
struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

/// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019): the decay shrinks the values
/// by lr * weight_decay and does not enter the moments. The default decay is PyTorch's, 0.01.
class AdamW : public Adam {
 public:
  explicit AdamW(ParameterArena& arena, const AdamWOptions& options = {},
                 const std::vector<ParameterGroup>& groups = {});
};

}  // namespace ringtape
