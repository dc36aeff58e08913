#pragma once

#include "core/random.h"
#include "core/tensor.h"

/// Functions that create tensors. None of the tensors requires a gradient.
namespace ringtape {

/// All elements `value`, in an integer dtype without its fraction. Throws Error for a value outside of an
/// integer dtype's range.
Tensor full(Shape shape, double value, DType dtype = DType::f32, Device device = {});
Tensor zeros(Shape shape, DType dtype = DType::f32, Device device = {});
Tensor ones(Shape shape, DType dtype = DType::f32, Device device = {});
/// start, start + step, ... up to but not including `end`, in an integer dtype without their fractions.
/// Throws Error when step is 0 or leads away from `end`, and for values outside of an integer dtype's range.
Tensor arange(double start, double end, double step = 1, DType dtype = DType::f32, Device device = {});
/// Uniform in [low, high); floating dtypes. Drawn in f32, with 24 random bits and `low` and `high` rounded to
/// f32, for f64 too. (A value that rounds up to `high` becomes `low`.) Takes ceil(n / 4) counters of the
/// generator. Throws Error for low > high, and where their difference is above the range of f32.
Tensor rand(Shape shape, DType dtype = DType::f32, Device device = {}, double low = 0, double high = 1,
            Generator& generator = default_generator());
/// Normal with this mean and standard deviation; floating dtypes. Takes ceil(n / 4) counters of the
/// generator. Throws Error unless std is at least 0.
Tensor randn(Shape shape, DType dtype = DType::f32, Device device = {}, double mean = 0, double std = 1,
             Generator& generator = default_generator());

}  // namespace ringtape
