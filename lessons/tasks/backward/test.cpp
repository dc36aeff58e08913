#include <cmath>
#include <limits>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "lessons/tasks/backward/task.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/tests.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using Backward = decltype(::silu_backward);
using Values = std::vector<float>;

double silu_of(double x) {
  return x / (1 + std::exp(-x));
}

/// dy/dx by differences, in double.
double slope_at(double x) {
  constexpr double h = 1e-5;
  return (silu_of(x + h) - silu_of(x - h)) / (2 * h);
}

void test_slope(Backward* backward) {
  const Values x = {-3, -1, 0, 0.5F, 2, 6};
  constexpr float kUntouched = std::numeric_limits<float>::quiet_NaN();
  Values dx(x.size(), kUntouched);
  backward(x, Values(x.size(), 1), dx, false);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = slope_at(x[i]), sigmoid = 1 / (1 + std::exp(-static_cast<double>(x[i])));
    if (close(dx[i], expected, 1e-4)) continue;
    if (std::isnan(dx[i])) {
      wrong(
          "dx of x = {:g} is not a number, as it was before the call: without accumulate dx is "
          "uninitialized, so overwrite it instead of adding to it",
          x[i]);
    }
    if (close(dx[i], sigmoid, 1e-4)) {
      wrong(
          "dx of x = {:g} is {:.5f}, the sigmoid; in x sigmoid(x) both factors depend on x, so dy/dx has two "
          "terms: {:.5f}",
          x[i], dx[i], expected);
    }
    wrong("dx of x = {:g} with dy = 1 is {:.5f}, expected {:.5f} (by differences)", x[i], dx[i], expected);
  }
}

void test_chain_rule(Backward* backward) {
  Values dx = {0};
  backward(Values{2}, Values{-3}, dx, false);
  if (close(dx[0], slope_at(2), 1e-4)) {
    wrong("with dy = -3 dx is {:.5f}, as with dy = 1: by the chain rule it is the slope times dy", dx[0]);
  }
  if (!close(dx[0], -3 * slope_at(2), 1e-4))
    wrong("dx of x = 2 with dy = -3 is {:.5f}, expected {:.5f}", dx[0], -3 * slope_at(2));
}

void test_accumulate(Backward* backward) {
  Values dx = {10};
  backward(Values{2}, Values{-3}, dx, true);
  if (close(dx[0], -3 * slope_at(2), 1e-4)) {
    wrong("with accumulate dx held 10, from another use of x, and now holds {:.5f}: add to it", dx[0]);
  }
  if (close(dx[0], 10 + slope_at(2), 1e-4)) {
    wrong(
        "with accumulate and dy = -3, 10 became {:.5f}, as with dy = 1: what is added is the slope times dy "
        "too",
        dx[0]);
  }
  if (!close(dx[0], 10 - 3 * slope_at(2), 1e-4))
    wrong("with accumulate and dy = -3, 10 became {:.5f}, expected {:.5f}", dx[0], 10 - 3 * slope_at(2));
}

std::span<float> elements_of(const Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.elements())};
}

/// SiLU whose backward is the learner's.
Tensor learners_silu(const Tensor& x, Backward* backward) {
  Tensor y = empty(x.shape());
  const std::span<float> inputs = elements_of(x), results = elements_of(y);
  for (std::size_t i = 0; i < inputs.size(); ++i) results[i] = static_cast<float>(silu_of(inputs[i]));
  if (Tape::records({&x})) {
    Tape::current().record("your silu", {x}, y, {x}, [backward](BackwardContext& context) {
      const GradTarget target = context.grad_target(0);
      backward(elements_of(context.saved(0)), elements_of(context.grad_output()), elements_of(target.grad),
               target.accumulate);
    });
  }
  return y;
}

std::vector<double> losses_with(const std::function<Tensor(const Tensor&)>& activation) {
  SmallModel model;
  SGD sgd(model.arena, {.learning_rate = 0.5});
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    sgd.zero_grad();
    const Tensor loss = cross_entropy(activation(model.logits(0, SmallModel::kSamples)),
                                      model.labels(0, SmallModel::kSamples));
    loss.backward();
    sgd.step();
    losses.push_back(loss.item());
  }
  return losses;
}

}  // namespace

void test_backward(const LearnersFile& file) {
  auto* const backward = file.function<Backward>("silu_backward");
  test_slope(backward);
  test_chain_rule(backward);
  test_accumulate(backward);
}

void run_backward(const LearnersFile& file) {
  auto* const backward = file.function<Backward>("silu_backward");
  show_losses("your silu", losses_with([=](const Tensor& x) { return learners_silu(x, backward); }),
              "the library's", losses_with([](const Tensor& x) { return silu(x); }));
}

}  // namespace ringtape::tasks
