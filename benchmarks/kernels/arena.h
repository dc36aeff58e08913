#pragma once

#include <memory>

#include "benchmarks/kernels/case.h"
#include "nn/arena.h"
#include "nn/module.h"

namespace ringtape::kernel_cases {

/// A model of parameters in an arena, each with a gradient, and no forward. Values and gradients are uniform
/// in [0.25, 1.25).
class Parameters : public Module {
 public:
  /// Parameters with the size's lengths; for a size without lengths, three parameters: a half, a quarter and
  /// a quarter of it.
  Parameters(const Size& size, Device device, DType compute_dtype = DType::f32);
  Tensor forward(const Tensor& x) override { return x; }
  ParameterArena& arena() { return *arena_; }
  /// For the next step: sets a clip factor, and a skip flag with value 0.
  void clip_and_skip();

 private:
  std::unique_ptr<ParameterArena> arena_;
  Tensor clip_factor_, skip_;
};

/// Sizes of an arena for `lens` are multiples of this, so that there is no padding between parameters.
inline constexpr std::int64_t kArenaMultiple = 4 * kTileAlignment;

}  // namespace ringtape::kernel_cases
