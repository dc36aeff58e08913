#include "train/task.h"

#include <utility>

#include "autograd/ops.h"

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
    return cross_entropy(std::move(logits), targets, {.reduction = Reduction::sum, .divisor = divisor});
  };
  task.correct = count_correct;
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

}  // namespace ringtape
