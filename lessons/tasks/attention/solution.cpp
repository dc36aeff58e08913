#include "lessons/tasks/attention/task.h"

void attend(Attention& state, const float* query, const float* keys, const float* values, int count) {
  const std::size_t width = state.result.size();
  for (int key = 0; key < count; ++key, keys += width, values += width) {
    float score = 0;
    for (std::size_t i = 0; i < width; ++i) score += query[i] * keys[i];
    score /= std::sqrt(static_cast<float>(width));
    const float maximum = std::fmax(state.maximum, score);
    const float factor = std::exp(state.maximum - maximum), weight = std::exp(score - maximum);
    state.maximum = maximum;
    state.sum = state.sum * factor + weight;
    for (std::size_t i = 0; i < width; ++i) state.result[i] = state.result[i] * factor + weight * values[i];
  }
}

void finish(const Attention& state, float* out) {
  for (std::size_t i = 0; i < state.result.size(); ++i) out[i] = state.result[i] / state.sum;
}
