#include <cmath>
#include <string>
#include <vector>

#include "lessons/tasks/adam/task.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/tests.h"
#include "optim/adam.h"

namespace ringtape::tasks {
namespace {

using StepFunction = decltype(::adam_step);
constexpr AdamSettings kSettings = {.rate = 0.1F, .beta1 = 0.9F, .beta2 = 0.96F, .eps = 0.01F};

/// One weight that takes some steps.
struct Element {
  std::vector<float> w = {1}, m = {0}, v = {0};

  void take(StepFunction* step, const std::vector<float>& gradients) {
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      step(w, std::vector<float>{gradients[t]}, m, v, static_cast<int>(t) + 1, kSettings);
    }
  }
};

/// The weight, from 1, after a first step with gradient g that leaves out the bias correction.
double step_without_correction(double g) {
  const double m = 0.1 * g, v = 0.04 * g * g;
  return 1 - 0.1 * m / (std::sqrt(v) + 0.01);
}

/// The same with both corrections as one factor of the rate, so that eps is added to the uncorrected sqrt(v).
/// (Were sqrt(1 - beta2) equal to 1 - beta1, that factor would be 1 in the first step.)
double step_with_eps_before_correction(double g) {
  const double m = 0.1 * g, v = 0.04 * g * g;
  return 1 - 0.1 * (std::sqrt(0.04) / 0.1) * m / (std::sqrt(v) + 0.01);
}

void test_first_step(StepFunction* step) {
  Element x;
  x.take(step, {0.5F});
  const double w = x.w[0], m = x.m[0], v = x.v[0];
  if (w == 1 && m == 0 && v == 0) wrong("nothing changed: w, m and v are as before the step");
  if (!close(m, 0.05, 1e-6)) {
    wrong("step 1 with g = 0.5, beta1 = 0.9: m is {:.4g}, expected 0.9 x 0 + 0.1 x 0.5 = 0.05", m);
  }
  if (close(v, 0.04 * 0.5, 1e-6)) {
    wrong("v is {:.4g} = 0.04 x 0.5: it has to be the mean of the square of the gradient, 0.04 x 0.25", v);
  }
  if (!close(v, 0.01, 1e-6)) {
    wrong("step 1 with g = 0.5, beta2 = 0.96: v is {:.4g}, expected 0.96 x 0 + 0.04 x 0.5^2 = 0.01", v);
  }
  const double expected = 1 - 0.1 * 0.5 / (0.5 + 0.01);
  if (close(w, step_without_correction(0.5), 1e-5)) {
    wrong(
        "w is {:.5f}, which it is without the bias correction: divide m by 1 - beta1^t and v by 1 - beta2^t",
        w);
  }
  if (close(w, step_with_eps_before_correction(0.5), 1e-5)) {
    wrong(
        "w is {:.5f}: eps is added to sqrt(v) before the correction; divide v by 1 - beta2^t first, and add "
        "eps to the root of that",
        w);
  }
  if (close(w, 1 - 0.1 * 0.5 / std::sqrt(0.25 + 0.01), 1e-5)) {
    wrong("w is {:.5f}: eps is added to the root, not under it", w);
  }
  if (close(w, 2 - expected, 1e-5)) wrong("w went up where g is positive: subtract the step");
  if (!close(w, expected, 1e-5)) {
    wrong("step 1 with g = 0.5: w is {:.5f}, expected 1 - 0.1 x 0.5 / (0.5 + 0.01) = {:.5f}", w, expected);
  }
}

void test_later_steps(StepFunction* step) {
  Element x;
  x.take(step, {0.5F, -1.0F, 2.0F});
  double w = 1, m = 0, v = 0;
  int t = 0;
  for (const double g : {0.5, -1.0, 2.0}) {
    ++t;
    m = 0.9 * m + 0.1 * g;
    v = 0.96 * v + 0.04 * g * g;
    w -= 0.1 * m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.96, t))) + 0.01);
  }
  if (!close(x.w[0], w, 1e-5)) {
    wrong(
        "the first step is right, but after steps with g = 0.5, -1 and 2 w is {:.5f}, expected {:.5f}: does "
        "the correction use t, and do m and v build on their old values?",
        x.w[0], w);
  }
}

void test_all_elements(StepFunction* step) {
  std::vector<float> w(5, 1), m(5), v(5);
  const std::vector<float> g = {1, 2, 3, 4, 5};
  step(w, g, m, v, 1, kSettings);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double expected = 1 - 0.1 * g[i] / (g[i] + 0.01);
    if (!close(w[i], expected, 1e-5)) wrong("w[{}] of 5 is {:.5f}, expected {:.5f}", i, w[i], expected);
  }
}

}  // namespace

void test_adam(const LearnersFile& file) {
  StepFunction* const step = file.function<StepFunction>("adam_step");
  test_first_step(step);
  test_later_steps(step);
  test_all_elements(step);
}

void run_adam(const LearnersFile& file) {
  StepFunction* const step = file.function<StepFunction>("adam_step");
  SmallModel mine, library;
  std::vector<float> m(mine.values().size()), v(m.size());
  Adam adam(library.arena, {.learning_rate = 0.01});
  std::vector<double> by_mine, by_library;
  for (int t = 1; t <= 60; ++t) {
    by_mine.push_back(mine.backward());
    step(mine.values(), mine.gradients(), m, v, t,
         {.rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.999F, .eps = 1e-8F});
    mine.arena.bump_versions();
    by_library.push_back(library.backward());
    adam.step();
  }
  show_losses("your Adam", by_mine, "the library's", by_library);
}

}  // namespace ringtape::tasks
