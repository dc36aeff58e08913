#pragma once

#include <memory>

#include "benchmarks/kernels/case.h"
#include "nn/arena.h"
#include "nn/module.h"

namespace ringtape::kernel_cases {

/// A model that only has parameters in an arena, each with a gradient. Values and gradients are uniform in
/// [0.25, 1.25).
class Parameters : public Module {
 public:
  /// Parameters with the size's lengths; for a size without lengths, three parameters with a half, a quarter
  /// and a quarter of its elements.
  Parameters(const Size& size, Device device, DType compute_dtype = DType::f32);
  Tensor forward(const Tensor& x) override { return x; }
  ParameterArena& arena() { return *arena_; }
  /// Sets a clip factor and a skip flag of 0 for the next step.
  void clip_and_skip();

 private:
  std::unique_ptr<ParameterArena> arena_;
  Tensor clip_factor_, skip_;
};

/// The sizes of arenas for `lens` are multiples of this number, so that there is no padding between
/// parameters.
inline constexpr std::int64_t kArenaMultiple = 4 * kTileAlignment;

}  // namespace ringtape::kernel_cases
