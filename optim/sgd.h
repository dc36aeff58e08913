#pragma once

#include "optim/optimizer.h"

namespace ringtape {

/// torch.optim.SGD's arguments and defaults, except for the learning rate.
struct SGDOptions {
  double learning_rate = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// Stochastic gradient descent with momentum (Sutskever et al., "On the importance of initialization and
/// momentum in deep learning", 2013), weight decay and Nesterov's form, as PyTorch computes them; the
/// formulas are in kernels/sgd.h. Throws Error for a momentum that is not finite or is negative, a dampening
/// that is not finite, and Nesterov without momentum or with dampening.
class SGD : public Optimizer {
 public:
  explicit SGD(ParameterArena& arena, const SGDOptions& options = {},
               const std::vector<ParameterGroup>& groups = {});
  /// "momentum_buffer" (with momentum only) and "step".
  std::vector<NamedTensor> state() const override;

 protected:
  void launch_step(const ArenaView& view) override;

 private:
  SGDOptions options_;
  Tensor momentum_buffer_;  // undefined without momentum
  Tensor steps_;
  Tensor coefficients_;
};

}  // namespace ringtape
