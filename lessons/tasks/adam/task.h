#pragma once

#include <cmath>
#include <cstddef>
#include <span>

/// Adam's hyperparameters: the learning rate, the decay rates of the two moments, and eps.
struct AdamSettings {
  float rate, beta1, beta2, eps;
};

/// One step of Adam: changes the weights w and the moments m and v. g is the gradient. All four are equally
/// long. `t` is the number of this step: 1, 2, 3, ...
extern "C" void adam_step(std::span<float> w, std::span<const float> g, std::span<float> m,
                          std::span<float> v, int t, const AdamSettings& settings);
