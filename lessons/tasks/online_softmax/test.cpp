#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/online_softmax/task.h"
#include "lessons/tasks/tests.h"

namespace ringtape::tasks {
namespace {

using Absorb = decltype(::absorb);
using Merge = decltype(::merge);
using Values = std::vector<float>;

Softmax state_of(Absorb* absorb, const Values& values) {
  Softmax state;
  for (const float x : values) absorb(state, x);
  return state;
}

/// The sum of e^(x - maximum), in double.
double sum_of(const Values& values, double maximum) {
  double sum = 0;
  for (const float x : values) sum += std::exp(x - maximum);
  return sum;
}

void test_falling(Absorb* absorb) {
  const Softmax found = state_of(absorb, {3, 2, 1});
  if (found.sum == 0) wrong("absorb: after 3, 2 and 1 the sum is still 0");
  if (found.maximum != 3) wrong("absorb: after 3, 2 and 1 the maximum is {:g}, expected 3", found.maximum);
  if (!close(found.sum, sum_of({3, 2, 1}, 3), 1e-5)) {
    wrong("absorb: after 3, 2 and 1 the sum is {:g}, expected e^0 + e^-1 + e^-2 = {:.5f}", found.sum,
          sum_of({3, 2, 1}, 3));
  }
}

void test_rising(Absorb* absorb) {
  const Values values = {1, 2, 3};
  const Softmax found = state_of(absorb, values);
  if (close(found.sum, 3, 1e-5)) {
    wrong(
        "absorb: after 1, 2 and 3 the sum is 3 = e^0 + e^0 + e^0: when the maximum rises, the sum so far has "
        "to be multiplied "
        "by e^(old maximum - new maximum)");
  }
  if (!close(found.sum, sum_of(values, 3), 1e-5)) {
    wrong("absorb: after 1, 2 and 3 the sum is {:g}, expected e^-2 + e^-1 + e^0 = {:.5f}", found.sum,
          sum_of(values, 3));
  }
}

void test_large(Absorb* absorb) {
  const Softmax found = state_of(absorb, {1000, 1001});
  if (!close(found.sum, 1 + std::exp(-1.0), 1e-5)) {
    wrong(
        "absorb: after 1000 and 1001 the sum is {:g}, expected e^-1 + e^0: no exponent may be above 0, or "
        "e^1000 is infinite",
        found.sum);
  }
  const Softmax small = state_of(absorb, {-1000, -1001});
  if (!close(small.sum, 1 + std::exp(-1.0), 1e-5)) {
    wrong("absorb: after -1000 and -1001 the sum is {:g}, expected e^0 + e^-1", small.sum);
  }
}

void test_merge(Absorb* absorb, Merge* merge) {
  const Values low = {1, 2}, high = {5, 4};
  const Softmax a = state_of(absorb, low), b = state_of(absorb, high);
  for (const Softmax& found : {merge(a, b), merge(b, a)}) {
    const double expected = sum_of({1, 2, 5, 4}, 5);
    if (found.maximum != 5) wrong("merge of maxima 2 and 5: found {:g}, expected 5", found.maximum);
    if (close(found.sum, a.sum + b.sum, 1e-5)) {
      wrong(
          "merge: each sum belongs to its own maximum: multiply it by e^(own maximum - common maximum) "
          "before adding");
    }
    if (!close(found.sum, expected, 1e-5))
      wrong("merge of (1, 2) and (5, 4): the sum is {:g}, expected {:.5f}", found.sum, expected);
  }
  const Softmax empty;
  for (const Softmax& found : {merge(a, empty), merge(empty, a)}) {
    if (!close(found.sum, a.sum, 1e-6))
      wrong("merge with an empty part changes the sum: {:g}, expected {:g}", found.sum, a.sum);
    if (found.maximum != a.maximum)
      wrong("merge with an empty part changes the maximum: {:g}, expected {:g}", found.maximum, a.maximum);
  }
  const float sum_of_nothing = merge(empty, empty).sum;
  if (std::isnan(sum_of_nothing))
    wrong("merge of two empty parts is NaN: -inf minus -inf; expected the sum 0");
  if (sum_of_nothing != 0) wrong("merge of two empty parts: the sum is {:g}, expected 0", sum_of_nothing);
}

}  // namespace

void test_online_softmax(const LearnersFile& file) {
  auto* const absorb = file.function<Absorb>("absorb");
  test_falling(absorb);
  test_rising(absorb);
  test_large(absorb);
  test_merge(absorb, file.function<Merge>("merge"));
}

void run_online_softmax(const LearnersFile& file) {
  auto* const absorb = file.function<Absorb>("absorb");
  auto* const merge = file.function<Merge>("merge");
  constexpr std::int64_t kClasses = SmallModel::kClasses;
  SmallModel model;
  const NoGrad no_grad;
  std::vector<double> by_mine, by_library;
  for (std::int64_t sample = 0; sample < 20; ++sample) {
    const Tensor logits = model.logits(sample, 1), label = model.labels(sample, 1);
    const Values x = logits.to_vector<float>();
    Softmax first, second;
    for (std::size_t i = 0; i < kClasses; ++i) absorb(i < kClasses / 2 ? first : second, x[i]);
    const Softmax all = merge(first, second);
    const auto target = static_cast<std::size_t>(label.data<std::int64_t>()[0]);
    by_mine.push_back(-(x[target] - all.maximum - std::log(all.sum)));
    by_library.push_back(cross_entropy(logits, label).item());
  }
  fmt::print(
      "\nThe cross-entropy of samples of a network, the softmax in two parts:\n  sample   {:>14}   {:>14}\n",
      "your softmax", "the library's");
  for (std::size_t i = 0; i < by_mine.size(); ++i) {
    if (i % 5 == 0) fmt::print("  {:>6}   {:>14.6f}   {:>14.6f}\n", i, by_mine[i], by_library[i]);
    if (!close(by_mine[i], by_library[i], 1e-4))
      wrong("sample {}: {:.6f}, the library has {:.6f}", i, by_mine[i], by_library[i]);
  }
}

}  // namespace ringtape::tasks
