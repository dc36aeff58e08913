#pragma once

#include "core/random.h"
#include "core/tensor.h"

/// Initial values of parameters, written in place. They are drawn on the CPU, so that a seed gives the same
/// values on every device.
namespace ringtape::init {

/// Uniform in [-bound, bound).
void uniform(Tensor& x, double bound, Generator& generator = default_generator());
/// Normal with mean 0 and this standard deviation.
void normal(Tensor& x, double std, Generator& generator = default_generator());

/// Kaiming uniform for weight [out, in] and a leaky ReLU of slope `a` (He et al., "Delving deep into
/// rectifiers", 2015): uniform in [-bound, bound) with bound = sqrt(6 / ((1 + a^2) in)). PyTorch's Linear
/// uses a = sqrt(5), for which the bound is 1 / sqrt(in). Throws Error unless weight has two dimensions.
void kaiming_uniform(Tensor& weight, double a = 0, Generator& generator = default_generator());

/// While one exists, the functions above do nothing on this thread: for modules whose values are written
/// afterwards.
class Skip {
 public:
  Skip();
  ~Skip();
  Skip(const Skip&) = delete;
  Skip& operator=(const Skip&) = delete;
};

}  // namespace ringtape::init
