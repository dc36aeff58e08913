#pragma once

#include <memory>
#include <string>
#include <utility>

#include "train/task.h"

namespace ringtape {

/// A loss of the library as Task::loss: known by its type not to need the check of a task's own loss.
struct BuiltInLoss {
  LossAndCorrect (*function)(Tensor prediction, const Tensor& targets, double divisor);
  LossAndCorrect operator()(Tensor prediction, const Tensor& targets, double divisor) const {
    return function(std::move(prediction), targets, divisor);
  }
};

/// The same as Task::loss_with.
struct BuiltInLossWith {
  Tensor (*function)(const LayerFactory& layers, Tensor prediction, const Tensor& targets, double divisor);
  Tensor operator()(const LayerFactory& layers, Tensor prediction, const Tensor& targets,
                    double divisor) const {
    return function(layers, std::move(prediction), targets, divisor);
  }
};

/// A task with a name and data, for the functions that make tasks.
Task task_with(std::string name, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test);

}  // namespace ringtape
