#include "train/task.h"

#include <cmath>
#include <limits>
#include <utility>

#include "autograd/tape.h"
#include "core/error.h"
#include "core/random.h"
#include "data/loader.h"
#include "train/built_in_loss.h"

namespace ringtape {
namespace {

/// Every sample's target counts, so none may be ignored.
constexpr std::int64_t kNoTarget = std::numeric_limits<std::int64_t>::min();

LossAndCorrect classification_loss(Tensor logits, const Tensor& targets, double divisor) {
  return cross_entropy_and_correct(
      std::move(logits), targets,
      {.reduction = Reduction::sum, .ignore_index = kNoTarget, .divisor = divisor});
}

LossAndCorrect regression_loss(Tensor prediction, const Tensor& targets, double divisor) {
  const double values = static_cast<double>(targets.elements()) / static_cast<double>(targets.size(0));
  return mse_loss(to(prediction, DType::f32), targets, Reduction::sum, divisor * values);
}

/// Throws Error unless this is a value of a task's loss.
void check_is_scalar(const Tensor& result, const char* name) {
  check(result.defined() && result.elements() == 1, "{}: expected a scalar, found {}", name,
        result.defined() ? describe(result) : "an undefined tensor");
}

/// Throws Error unless twice the divisor halves the loss. False for a loss that cannot show it: 0 or not
/// finite. Leaves no trace on the tape or in the random numbers.
bool check_divides(const LossFunction& loss, const Tensor& prediction, const Tensor& targets,
                   double divisor) {
  const NoGrad no_grad;
  const Generator random = default_generator();
  const auto loss_by = [&](double by) {
    default_generator() = random;
    const Tensor result = loss(prediction, targets, by).loss;
    check_is_scalar(result, "Task::loss");
    return static_cast<double>(result.item());
  };
  const double once = loss_by(divisor), twice = loss_by(2 * divisor);
  default_generator() = random;
  constexpr double kTolerance = 0.01;  // more than rounding to bf16 changes a value
  check(!std::isfinite(once) || std::abs(once - 2 * twice) <= kTolerance * std::abs(once),
        "Task::loss: expected the sum of a batch's losses divided by `divisor`, found {} with the divisor {} "
        "and {} with {}",
        once, divisor, twice, 2 * divisor);
  return std::isfinite(once) && once != 0;
}

}  // namespace

Task task_with(std::string name, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test) {
  Task task;
  task.name = std::move(name);
  task.train = std::move(train);
  task.test = std::move(test);
  return task;
}

Task checked_task(Task task) {
  const char* const missing = !task.make_model && !task.make_model_with ? "make_model"
                              : !task.loss                              ? "loss"
                              : !task.train                             ? "train"
                              : !task.test                              ? "test"
                                                                        : nullptr;
  check(missing == nullptr, "trainer: the task needs make_model, loss, train and test, found no {}",
        missing == nullptr ? "" : missing);
  check(!task.loss_with || !task.counts_correct,
        "trainer: the task has counts_correct, and a loss_with, which returns no number of correct "
        "predictions");
  if (task.loss.target<BuiltInLoss>() != nullptr) return task;
  check(
      task.loss_with.target<BuiltInLossWith>() == nullptr,
      "trainer: the task has a loss of its own, but the loss_with of language_model_task(), which ranks that "
      "divide the model would use: expected its own loss_with, or nullptr");
  task.loss = [given = task.loss, counts_correct = task.counts_correct, is_checked = false](
                  Tensor prediction, const Tensor& targets, double divisor) mutable {
    if (!is_checked) is_checked = check_divides(given, prediction, targets, divisor);
    LossAndCorrect result = given(std::move(prediction), targets, divisor);
    if (counts_correct) check_is_scalar(result.correct, "the correct predictions of Task::loss");
    return result;
  };
  return task;
}

Task classification_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test) {
  Task task = task_with(std::move(name), std::move(train), std::move(test));
  task.loss = BuiltInLoss{classification_loss};
  task.counts_correct = true;
  return task;
}

Task regression_task(std::string name, std::shared_ptr<const Dataset> train,
                     std::shared_ptr<const Dataset> test) {
  Task task = task_with(std::move(name), std::move(train), std::move(test));
  task.loss = BuiltInLoss{regression_loss};
  return task;
}

}  // namespace ringtape
