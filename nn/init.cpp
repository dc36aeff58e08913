#include "nn/init.h"

#include <cmath>

#include "autograd/creation.h"
#include "core/error.h"

namespace ringtape::init {
namespace {

thread_local int skips = 0;

}  // namespace

Skip::Skip() {
  ++skips;
}
Skip::~Skip() {
  --skips;
}

// The values are drawn on the CPU and copied, so that a seed gives the same model on every device.

void uniform(Tensor& x, double bound, Generator& generator) {
  if (skips > 0) return;
  x.copy_from(rand(x.shape(), x.dtype(), Device{}, -bound, bound, generator));
}

void normal(Tensor& x, double std, Generator& generator) {
  if (skips > 0) return;
  x.copy_from(randn(x.shape(), x.dtype(), Device{}, 0, std, generator));
}

void kaiming_uniform(Tensor& weight, double a, Generator& generator) {
  check(weight.dims() == 2, "kaiming_uniform: expected a weight [out, in], found {}", describe(weight));
  const double fan_in = static_cast<double>(weight.size(1));
  uniform(weight, std::sqrt(6.0 / ((1.0 + a * a) * fan_in)), generator);
}

}  // namespace ringtape::init
