#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "nn/module.h"

namespace ringtape {

class Batch;

/// What decides how much memory an update takes, besides the model itself.
struct UpdateShape {
  std::int64_t micro_batch = 1;          ///< samples that go through the model at a time
  std::int64_t state_per_parameter = 0;  ///< f32 values that the optimizer keeps for each parameter
  DType compute = DType::f32;
};

/// What is to be learned: model, data and loss. A Trainer does what all trainings have in common. Functions
/// with a default may be left as they are.
struct Task {
  std::string name;        ///< for a person: "MNIST"
  std::string model_name;  ///< for a person: "784-256-10"; may be empty

  /// Makes the model; called once, after the default generator was seeded. Every rank has to make the same.
  std::function<std::shared_ptr<Module>()> make_model;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;

  /// The model's input, of `dtype`, of a batch's features as they come from the dataset. Default: to().
  std::function<Tensor(const Tensor& features, DType dtype)> prepare;
  /// Sum of the losses of a batch over `divisor`: a scalar, f32. It is given the prediction to own, so that
  /// the gradient can take its memory (see cross_entropy()).
  std::function<Tensor(Tensor prediction, const Tensor& targets, double divisor)> loss;
  /// Number of correct predictions in a batch, an i64 scalar. Default: none, and no accuracy is shown.
  std::function<Tensor(const Tensor& prediction, const Tensor& targets)> correct;
  /// Targets of a batch, which is on the CPU, that the loss counts: those that are not ignored. The mean loss
  /// is over them. Default: one for each sample.
  std::function<std::int64_t(const Batch& batch)> count_targets;

  /// The formula's memory of an update, for --memory-report and --report. Default: no formula.
  std::function<BytesByCategory(const UpdateShape& shape)> estimate_memory;
  /// Files that the task was read from: a Trainer refuses to write over them.
  std::vector<std::string> input_files;
  /// Settings of the task itself that a checkpoint can only be resumed with, by name as text.
  std::map<std::string, std::string> settings;
};

/// A task of telling classes apart: targets are i32 or i64 [N] in [0, C), the model's output is logits [N,
/// C], the loss is cross-entropy, and correct predictions are counted.
Task classification_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test);

/// A task of predicting numbers: the loss is the mean squared error over the values of a target.
Task regression_task(std::string name, std::shared_ptr<const Dataset> train,
                     std::shared_ptr<const Dataset> test);

}  // namespace ringtape
