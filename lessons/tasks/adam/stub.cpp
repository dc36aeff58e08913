// Adam. ./learn 4 task says what it has to do, ./learn 4 test tries it.
#include "lessons/tasks/adam/task.h"

void adam_step(std::span<float> w, std::span<const float> g, std::span<float> m, std::span<float> v, int t,
               const AdamSettings& settings) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    // Your code: the new m[i] and v[i], and from them the new w[i].
    static_cast<void>(g);
    static_cast<void>(m);
    static_cast<void>(v);
    static_cast<void>(t);
    static_cast<void>(settings);
  }
}
