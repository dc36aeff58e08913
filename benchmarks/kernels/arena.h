#pragma once

#include <memory>

#include "benchmarks/kernels/case.h"
#include "nn/arena.h"
#include "nn/module.h"

namespace ringtape::kernel_cases {

/// A model that is nothing but parameters in an arena, each with a gradient. Values and gradients are uniform
/// in [0.25, 1.25).
class Parameters : public Module {
 public:
  /// Of the size's lengths; of a size without any: three parameters, a half, a quarter and a quarter of it.
  Parameters(const Size& size, Device device, DType compute_dtype = DType::f32);
  Tensor forward(const Tensor& x) override { return x; }
  ParameterArena& arena() { return *arena_; }
  /// Clips by a factor, and lets a flag say that the step is not to be skipped: until the next step.
  void clip_and_skip();

 private:
  std::unique_ptr<ParameterArena> arena_;
  Tensor clip_factor_, skip_;
};

/// What `lens` takes as a size of an arena is a multiple of this, so that no padding lies between parameters.
inline constexpr std::int64_t kArenaMultiple = 4 * kTileAlignment;

}  // namespace ringtape::kernel_cases
