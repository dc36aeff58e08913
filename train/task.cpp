#include "train/task.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
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

}  // namespace

Task classification_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test) {
  Task task = task_of(std::move(name), std::move(train), std::move(test));
  task.loss = [](Tensor logits, const Tensor& targets, double divisor) {
    return cross_entropy_and_correct(std::move(logits), targets,
                                     {.reduction = Reduction::sum, .divisor = divisor});
  };
  task.counts_correct = true;
  return task;
}

Task regression_task(std::string name, std::shared_ptr<const Dataset> train,
                     std::shared_ptr<const Dataset> test) {
  Task task = task_of(std::move(name), std::move(train), std::move(test));
  task.loss = [](const Tensor& prediction, const Tensor& targets, double divisor) {
    const double values = static_cast<double>(targets.elements()) / static_cast<double>(targets.size(0));
    return mse_loss(to(prediction, DType::f32), targets, Reduction::sum, divisor * values);
  };
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
  task.loss_with = [](const LayerFactory& layers, Tensor logits, const Tensor& targets, double divisor) {
    if (logits.dims() == 3) logits = view(logits, {logits.size(0) * logits.size(1), logits.size(2)});
    return layers.cross_entropy(
        std::move(logits), targets.alias({targets.elements()}),
        {.reduction = Reduction::sum, .ignore_index = kIgnoredTarget, .divisor = divisor});
  };
  task.loss = [with = task.loss_with](Tensor logits, const Tensor& targets, double divisor) {
    return with(LayerFactory(), std::move(logits), targets, divisor);
  };
  task.count_targets = [](const Batch& batch) {
    const auto* const targets = batch.targets().data<std::int32_t>();
    const std::int64_t all = batch.targets().elements();
    return all - std::count(targets, targets + all, kIgnoredTarget);
  };
  return task;
}

}  // namespace ringtape
