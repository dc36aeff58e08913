#pragma once

#include "autograd/ops.h"

namespace ringtape {

/// mse_loss() as an object that holds its options.
class MSELoss {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  Tensor operator()(const Tensor& prediction, const Tensor& target) const {
    return mse_loss(prediction, target, reduction_);
  }

 private:
  Reduction reduction_;
};

/// cross_entropy() as an object that holds its options. Pass the logits without keeping another handle
/// (`loss(model(x), y)`), and their memory is used for their gradient.
class CrossEntropyLoss {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {}) : options_(options) {}
  Tensor operator()(Tensor logits, const Tensor& targets) const {
    return cross_entropy(std::move(logits), targets, options_);
  }

 private:
  CrossEntropyOptions options_;
};

}  // namespace ringtape
