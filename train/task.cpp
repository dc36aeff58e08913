#include "train/task.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/tape.h"
#include "core/error.h"
#include "core/random.h"
#include "data/loader.h"
#include "text/token_dataset.h"

namespace ringtape {
namespace {

Task task_of(std::string name, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test) {
  Task task;
  task.name = std::move(name);
  task.train = std::move(train);
  task.test = std::move(test);
  return task;
}

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

Tensor language_model_loss_with(const LayerFactory& layers, Tensor logits, const Tensor& targets,
                                double divisor) {
  if (logits.dims() == 3) logits = view(logits, {logits.size(0) * logits.size(1), logits.size(2)});
  return layers.cross_entropy(
      std::move(logits), targets.alias({targets.elements()}),
      {.reduction = Reduction::sum, .ignore_index = kIgnoredTarget, .divisor = divisor});
}

LossAndCorrect language_model_loss(Tensor logits, const Tensor& targets, double divisor) {
  return language_model_loss_with(LayerFactory(), std::move(logits), targets, divisor);
}

/// Whether the task has the loss that one of the functions below gave it.
bool has_own_loss(const Task& task) {
  using Function = LossAndCorrect (*)(Tensor, const Tensor&, double);
  const Function* const loss = task.loss.target<Function>();
  return loss != nullptr &&
         (*loss == classification_loss || *loss == regression_loss || *loss == language_model_loss);
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
  if (has_own_loss(task)) return task;
  using LossWith = Tensor (*)(const LayerFactory&, Tensor, const Tensor&, double);
  const LossWith* const loss_with = task.loss_with.target<LossWith>();
  check(
      loss_with == nullptr || *loss_with != language_model_loss_with,
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
  Task task = task_of(std::move(name), std::move(train), std::move(test));
  task.loss = classification_loss;
  task.counts_correct = true;
  return task;
}

Task regression_task(std::string name, std::shared_ptr<const Dataset> train,
                     std::shared_ptr<const Dataset> test) {
  Task task = task_of(std::move(name), std::move(train), std::move(test));
  task.loss = regression_loss;
  return task;
}

Task language_model_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test, std::int64_t samples_per_epoch) {
  check(samples_per_epoch >= 0, "language_model_task: {} samples in an epoch, expected 0 or more",
        samples_per_epoch);
  Task task = task_of(std::move(name), std::move(train), std::move(test));
  if (samples_per_epoch > 0) {
    task.order = [samples = task.train->size(), samples_per_epoch](std::uint64_t seed) {
      return std::make_shared<ReplacementSampler>(samples, samples_per_epoch, seed);
    };
    task.settings["samples in an epoch"] = fmt::format("{}", samples_per_epoch);
  }
  task.prepare = [](const Tensor& tokens, DType) { return tokens; };
  task.loss_with = language_model_loss_with;
  task.loss = language_model_loss;
  task.count_targets = [](const Batch& batch) {
    const auto* const targets = batch.targets().data<std::int32_t>();
    const std::int64_t all = batch.targets().elements();
    return all - std::count(targets, targets + all, kIgnoredTarget);
  };
  return task;
}

}  // namespace ringtape
