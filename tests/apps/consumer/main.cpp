// Fits y = w x + b by gradient descent with Ringtape and, in double precision, by hand; both must agree.
#include <ringtape/data/mnist.h>
#include <ringtape/ringtape.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/device.h"

namespace {

using namespace ringtape;

constexpr double kLearningRate = 0.1;
constexpr int kSteps = 25;
const std::vector<float> kX = {-1.5f, -0.5f, 0.25f, 1.0f, 2.0f};
const std::vector<float> kY = {-2.0f, 0.5f, 1.0f, 3.5f, 5.0f};

struct Line {
  double w, b, loss;
};

Line fit_by_hand() {
  Line line{0.5, 0, 0};
  const auto n = static_cast<double>(kX.size());
  for (int step = 0; step < kSteps; ++step) {
    double dw = 0, db = 0;
    line.loss = 0;
    for (std::size_t i = 0; i < kX.size(); ++i) {
      const double error = line.w * kX[i] + line.b - kY[i];
      line.loss += error * error / n;
      dw += 2 * error * kX[i] / n;
      db += 2 * error / n;
    }
    line.w -= kLearningRate * dw;
    line.b -= kLearningRate * db;
  }
  return line;
}

Line fit_with_ringtape() {
  Linear model(1, 1);
  model.parameter("weight").copy_from(from_vector<float>({0.5f}, {1, 1}));
  model.parameter("bias").copy_from(from_vector<float>({0}, {1}));
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = kLearningRate});
  const Tensor x = from_vector(kX, {5, 1});
  const Tensor y = from_vector(kY, {5, 1});
  Line line{};
  for (int step = 0; step < kSteps; ++step) {
    const Tensor loss = mse_loss(model(x), y);
    line.loss = loss.item();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  line.w = model.parameter("weight").item();
  line.b = model.parameter("bias").item();
  return line;
}

/// The logits of a GPT for two tokens, the first of them 3.
std::vector<double> logits_of(GPT& model, std::int32_t second) {
  return model(from_vector<std::int32_t>({3, second}, {1, 2})).to_doubles();
}

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

bool near(double a, double b) {
  return std::abs(a - b) < 1e-5 * std::max(1.0, std::abs(b));
}

}  // namespace

int main() {
  const Line expected = fit_by_hand();
  const Line found = fit_with_ringtape();
  std::printf("w %.6f (by hand %.6f), b %.6f (%.6f), loss %.6f (%.6f)\n", found.w, expected.w, found.b,
              expected.b, found.loss, expected.loss);
  expect(near(found.w, expected.w) && near(found.b, expected.b), "the fitted line");
  expect(near(found.loss, expected.loss), "the loss");

  bool refused = false;
  try {
    add(zeros({2}), zeros({3}));
  } catch (const Error&) {
    refused = true;
  }
  expect(refused, "an exception of the library caught outside");
  GPT gpt({.vocabulary = 8, .context = 2, .layers = 1, .heads = 2, .width = 8});
  const std::vector<double> one = logits_of(gpt, 1), two = logits_of(gpt, 2);
  expect(std::equal(one.begin(), one.begin() + 8, two.begin()), "a token that does not see the next one");
  expect(one != two, "a token that sees itself");
  expect(load_mnist().train.size() == 60000, "the shipped MNIST");
  expect(coffee_machine::kCups == 2, "this program's own core/device.h");
  return failures == 0 ? 0 : 1;
}
