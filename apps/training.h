#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/options.h"
#include "core/tensor.h"
#include "data/dataset.h"

namespace ringtape::apps {

/// What is particular to one training program; train() does what all have in common.
struct Task {
  std::string name;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  std::int64_t inputs;   ///< features of a sample
  std::int64_t outputs;  ///< outputs of the model
  /// Makes the model's input, [n, inputs] of `dtype`, of a batch's features as they come from the dataset.
  std::function<Tensor(const Tensor& features, DType dtype)> prepare;
  /// Sum of the samples' losses over `divisor`; gets the prediction to own (see cross_entropy()).
  std::function<Tensor(Tensor prediction, const Tensor& targets, double divisor)> loss;
  /// Number of right answers in a batch, i64; null for a task that has none.
  std::function<Tensor(const Tensor& prediction, const Tensor& targets)> correct;
};

/// Builds the model, trains and tests it as the options say, and reports. Started as several ranks, they
/// share each batch; rank 0 reports and writes the files.
void train(const Task& task, const TrainOptions& options);

}  // namespace ringtape::apps
