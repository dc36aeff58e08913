#pragma once

#include <cmath>
#include <span>

/// Clips the gradients of all parameters together, in place: if the norm of all their elements is above
/// `limit`, all are multiplied by limit / norm. Returns the norm before clipping.
extern "C" double clip_gradients(std::span<const std::span<float>> gradients, double limit);
