#include "lessons/tasks/adam/task.h"

void adam_step(std::span<float> w, std::span<const float> g, std::span<float> m, std::span<float> v, int t,
               const AdamSettings& settings) {
  const auto [rate, beta1, beta2, eps] = settings;
  const float correction1 = 1 - std::pow(beta1, static_cast<float>(t));
  const float correction2 = 1 - std::pow(beta2, static_cast<float>(t));
  for (std::size_t i = 0; i < w.size(); ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    w[i] -= rate * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + eps);
  }
}
