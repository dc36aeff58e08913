#pragma once

#include <cmath>
#include <cstddef>
#include <span>

/// The backward of y = x sigmoid(x), element by element: computes dx, the gradient of x, from x, which the
/// forward saved, and dy, the gradient of y. All three are equally long. With `accumulate` the result is
/// added to what dx holds; without, dx is uninitialized and is overwritten.
extern "C" void silu_backward(std::span<const float> x, std::span<const float> dy, std::span<float> dx,
                              bool accumulate);
