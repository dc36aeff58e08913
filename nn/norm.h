#pragma once

#include "nn/module.h"

namespace ringtape {

/// The residual stream between two layers of a transformer. Its value is sum + branch; the branch is not
/// added yet, so that the next norm can add it in its own kernel.
struct Residual {
  Tensor sum;
  Tensor branch;  ///< may be undefined

  /// The value; adds the branch.
  Tensor value() const;
};

/// Normalises the last dimension: layer normalisation with a weight and an optional bias, or RMS
/// normalisation with a weight (layer_norm() and rms_norm() of autograd/ops.h). The weight is initialised to
/// 1 and the bias to 0.
class Norm : public Module {
 public:
  enum class Kind { layer, rms };

  /// `with_bias` is for layer norms; an RMS norm never has a bias. Throws Error for a width below 1.
  Norm(Kind kind, std::int64_t width, double eps = 1e-5, bool with_bias = true);
  Tensor forward(const Tensor& x) override;
  /// The norm of the stream's value. The same kernel adds the stream's branch to its sum.
  Tensor operator()(Residual& stream);
  using Module::operator();

 private:
  Kind kind_;
  double eps_;
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};

/// As in PyTorch: eps 1e-5, with a bias.
class LayerNorm : public Norm {
 public:
  explicit LayerNorm(std::int64_t width, double eps = 1e-5) : Norm(Kind::layer, width, eps) {}
};
/// x / sqrt(mean(x^2) + eps) * weight over the last dimension, of `width` elements.
class RMSNorm : public Norm {
 public:
  explicit RMSNorm(std::int64_t width, double eps = 1e-5) : Norm(Kind::rms, width, eps) {}
};

}  // namespace ringtape
