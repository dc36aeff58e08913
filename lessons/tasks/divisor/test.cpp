#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "autograd/ops.h"
#include "lessons/tasks/divisor/task.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/tests.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using Accumulate = decltype(::accumulate);
using Counts = std::vector<std::int64_t>;

/// The divisor of each micro-batch with which `accumulate` called backward, in any order.
std::vector<double> divisors_of(Accumulate* accumulate, const Counts& targets, std::int64_t all, int ranks) {
  std::vector<std::optional<double>> of_calls(targets.size());
  accumulate(targets, all, ranks, [&](std::size_t k, double divisor) {
    if (k >= targets.size()) {
      wrong("backward({}, ...) was called: expected micro-batches 0 to {}", k, targets.size() - 1);
    }
    if (of_calls[k]) wrong("backward({}, ...) was called twice: expected each micro-batch once", k);
    of_calls[k] = divisor;
  });
  std::vector<double> found;
  for (std::size_t k = 0; k < targets.size(); ++k) {
    if (!of_calls[k]) wrong("backward({}, ...) was never called: expected each micro-batch once", k);
    found.push_back(*of_calls[k]);
  }
  return found;
}

void test_one_rank(Accumulate* accumulate) {
  const Counts targets = {33, 33, 14};
  const std::vector<double> found = divisors_of(accumulate, targets, 80, 1);
  if (found == std::vector<double>(3, 1)) wrong("the sums are not divided at all: every divisor is 1");
  const auto all_are = [&](double value) { return found == std::vector<double>(3, value); };
  if (all_are(3)) {
    wrong(
        "33 + 33 + 14 targets: you divide by 3, the number of micro-batches; but backward takes sums of "
        "losses, "
        "not means");
  }
  if (found == std::vector<double>{33, 33, 14}) {
    wrong(
        "33 + 33 + 14 targets: you divide each sum by its own targets, which adds up three means: 3 times "
        "too much");
  }
  if (found == std::vector<double>{99, 99, 42}) {
    wrong(
        "33 + 33 + 14 targets: this averages the means of the micro-batches, so that the 14 count for a "
        "third; the "
        "mean over all targets gives them 14/80");
  }
  if (!all_are(80)) {
    wrong("33 + 33 + 14 targets on one rank: divisors {:g}, {:g}, {:g}; expected 80 for each", found[0],
          found[1], found[2]);
  }
}

void test_ranks(Accumulate* accumulate) {
  // Of 121 targets, so that 121 / 4 is no whole number, and not what this rank has.
  const std::vector<double> found = divisors_of(accumulate, {10, 15}, 121, 4);
  if (found[0] == 121) {
    wrong(
        "121 targets on 4 ranks: you divide by 121, but the gradients are averaged over the ranks "
        "afterwards, which "
        "divides by 4 again");
  }
  if (found[0] == 25) {
    wrong(
        "121 targets on 4 ranks, 25 of them on this one: you divide by this rank's own 25, and the other "
        "ranks "
        "have other numbers: the mean of their means is not the mean over all targets");
  }
  if (found[0] == 30)
    wrong("121 targets on 4 ranks: you divide by 30; 121 / 4 of integers loses the remainder");
  if (found[0] == 30.25 && found[1] == 30.25) return;
  wrong("121 targets on 4 ranks: divisors {:g} and {:g}; expected 121 / 4 = 30.25", found[0], found[1]);
}

void test_no_targets(Accumulate* accumulate) {
  for (const double divisor : divisors_of(accumulate, {0, 0}, 0, 2)) {
    if (divisor == 0 || std::isnan(divisor)) {
      wrong("a window without targets: its sums are 0, and 0 / {:g} is NaN; divide by 1", divisor);
    }
  }
}

}  // namespace

void test_divisor(const LearnersFile& file) {
  auto* const accumulate = file.function<Accumulate>("accumulate");
  test_one_rank(accumulate);
  test_ranks(accumulate);
  test_no_targets(accumulate);
}

void run_divisor(const LearnersFile& file) {
  auto* const accumulate = file.function<Accumulate>("accumulate");
  const Counts sizes = {25, 25, 10};
  SmallModel mine, at_once;
  SGD my_steps(mine.arena, {.learning_rate = 0.5}), its_steps(at_once.arena, {.learning_rate = 0.5});
  std::vector<double> by_mine, by_library;
  for (int step = 0; step < 40; ++step) {
    mine.arena.zero_grad();
    double loss = 0;
    accumulate(sizes, SmallModel::kSamples, 1, [&](std::size_t k, double divisor) {
      const std::int64_t first = 25 * static_cast<std::int64_t>(k);
      const Tensor part = cross_entropy(mine.logits(first, sizes[k]), mine.labels(first, sizes[k]),
                                        {.reduction = Reduction::sum, .divisor = divisor});
      part.backward();
      loss += part.item();
    });
    by_mine.push_back(loss);
    my_steps.step();
    by_library.push_back(at_once.backward());
    its_steps.step();
  }
  show_losses("25 + 25 + 10", by_mine, "60 at once", by_library);
}

}  // namespace ringtape::tasks
