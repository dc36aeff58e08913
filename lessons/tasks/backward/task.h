#pragma once

#include <cmath>
#include <cstddef>
#include <span>

/// The backward of y = x sigmoid(x), element by element: from x, which the forward saved, and the gradient dy
/// of y the gradient of x. With `accumulate` it is added to what dx holds; without, dx holds anything and is
/// overwritten.
extern "C" void silu_backward(std::span<const float> x, std::span<const float> dy, std::span<float> dx,
                              bool accumulate);
