#pragma once

#include "kernels/common/launcher.h"

/// Squared error over n elements of f32, bf16, f16 or, on the CPU, f64. The loss and its gradient are scalars
/// on the device: f32, or f64 where dtype is f64.

/// loss = factor * sum over i of (prediction[i] - target[i])^2, with factor 1/n for the mean and 1 for the
/// sum. One launch; the order of the sum depends only on n.
RINGTAPE_LAUNCHER(mse_forward, DType dtype, const void* prediction, const void* target, std::int64_t n,
                  double factor, void* loss);

/// dprediction[i] (+)= 2 * factor * grad_loss * (prediction[i] - target[i]). The target's gradient is the
/// same call with prediction and target swapped. dprediction may be prediction or target unless `accumulate`.
RINGTAPE_LAUNCHER(mse_backward, DType dtype, const void* prediction, const void* target,
                  const void* grad_loss, std::int64_t n, double factor, void* dprediction, bool accumulate);
