#include "nn/norm.h"

#include "autograd/ops.h"
#include "core/error.h"
#include "nn/module_scope.h"

namespace ringtape {

Tensor Residual::value() const {
  return branch.defined() ? add(sum, branch) : sum;
}

Norm::Norm(Kind kind, std::int64_t width, double eps, bool with_bias) : kind_(kind), eps_(eps) {
  check(width > 0, "Norm: the width must be at least 1, found {}", width);
  weight_ = &register_parameter("weight", full({width}, 1));
  if (kind == Kind::layer && with_bias) bias_ = &register_parameter("bias", zeros({width}));
}

Tensor Norm::forward(const Tensor& x) {
  if (kind_ == Kind::rms) return rms_norm(x, *weight_, eps_);
  return layer_norm(x, *weight_, bias_ == nullptr ? Tensor() : *bias_, eps_);
}

Tensor Norm::operator()(Residual& stream) {
  if (!stream.branch.defined()) return (*this)(stream.sum);
  const ModuleScope scope(*this);
  AddNorm both = kind_ == Kind::rms ? add_rms_norm(stream.sum, stream.branch, *weight_, eps_)
                                    : add_layer_norm(stream.sum, stream.branch, *weight_,
                                                     bias_ == nullptr ? Tensor() : *bias_, eps_);
  stream = {.sum = both.sum, .branch = {}};
  return both.normed;
}

}  // namespace ringtape
