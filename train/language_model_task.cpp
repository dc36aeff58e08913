#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/loader.h"
#include "dist/ring_attention.h"
#include "text/token_dataset.h"
#include "train/built_in_loss.h"

namespace ringtape {
namespace {

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

}  // namespace

Task language_model_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test, std::int64_t samples_per_epoch) {
  check(samples_per_epoch >= 0, "language_model_task: {} samples in an epoch, expected 0 or more",
        samples_per_epoch);
  Task task = task_with(std::move(name), std::move(train), std::move(test));
  if (samples_per_epoch > 0) {
    task.order = [samples = task.train->size(), samples_per_epoch](std::uint64_t seed) {
      return std::make_shared<ReplacementSampler>(samples, samples_per_epoch, seed);
    };
    task.settings["samples in an epoch"] = fmt::format("{}", samples_per_epoch);
  }
  task.prepare = [](const Tensor& tokens, DType) { return tokens; };
  task.loss_with = BuiltInLossWith{language_model_loss_with};
  task.loss = BuiltInLoss{language_model_loss};
  task.context_part = context_part_over;
  task.count_targets = [](const Batch& batch) {
    const auto* const targets = batch.targets().data<std::int32_t>();
    const std::int64_t all = batch.targets().elements();
    return all - std::count(targets, targets + all, kIgnoredTarget);
  };
  return task;
}

}  // namespace ringtape
