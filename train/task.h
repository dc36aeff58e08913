#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "nn/gpt_estimate.h"
#include "nn/layer_factory.h"
#include "nn/module.h"

namespace ringtape {

class Batch;

/// The parameters, besides the model, of the memory of an update.
struct UpdateShape {
  std::int64_t micro_batch = 1;          ///< samples in a forward pass
  std::int64_t state_per_parameter = 0;  ///< f32 values that the optimizer keeps for each parameter
  DType compute = DType::f32;
  GptPart part = {};  ///< of the model that a rank has, where ranks divide it or its sequences
};

/// A training task: model, data and loss. A Trainer has the part that all trainings share. Functions with a
/// default may be left unset.
struct Task {
  std::string name;        ///< display name: "MNIST"
  std::string model_name;  ///< display name: "784-256-10"; may be empty

  /// Makes a new model; called after the default generator was seeded, and again for Trainer::whole_model()
  /// where ranks have parts of the first. Every rank must make the same model.
  std::function<std::shared_ptr<Module>()> make_model;
  /// Makes it with layers from the factory, which ranks may divide between them (docs/parallel.md); called in
  /// place of make_model, so that a task needs only one of the two. Default: none, and --tensor-parallel,
  /// --context-parallel and --pipeline-parallel are errors.
  std::function<std::shared_ptr<Module>(const std::shared_ptr<LayerFactory>& layers)> make_model_with;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;

  /// The order of the training samples, from the run's seed; its size is an epoch's. Default: all samples,
  /// shuffled (RandomSampler).
  std::function<std::shared_ptr<const Sampler>(std::uint64_t seed)> order;

  /// Converts a batch's features from the dataset to the model's input of `dtype`. Default: to().
  std::function<Tensor(const Tensor& features, DType dtype)> prepare;
  /// Sum of the losses of a batch over `divisor`: a scalar, f32. It owns the prediction, so that the gradient
  /// can reuse its memory (see cross_entropy()). A classification task's also returns the number of correct
  /// predictions of the batch.
  std::function<LossAndCorrect(Tensor prediction, const Tensor& targets, double divisor)> loss;
  /// Whether `loss` returns the number of correct predictions. Default: no, and no accuracy is printed.
  bool counts_correct = false;
  /// The loss of a model whose output layer is the factory's by_vocabulary(); called in place of `loss` where
  /// ranks divide the model. Default: `loss`.
  std::function<Tensor(const LayerFactory& layers, Tensor prediction, const Tensor& targets, double divisor)>
      loss_with;
  /// The number of non-ignored targets of a batch, which is on the CPU. The mean loss is over them. It is not
  /// called where the training samples know their number (Dataset::targets_per_sample()). Default: one for
  /// each sample.
  std::function<std::int64_t(const Batch& batch)> count_targets;

  /// The parts of a sample, for the throughput: "tokens", and their number. Default: samples themselves.
  std::string unit = "samples";
  std::int64_t units_per_sample = 1;
  /// FLOPs of forward and backward for a sample, for the share of the device's arithmetic that the training
  /// uses. 0: not known.
  double flops_per_sample = 0;

  /// The memory of an update by formula, for --memory-report and --report; no bytes for a part of the model
  /// that it has no formula for. Default: no formula.
  std::function<BytesByCategory(const UpdateShape& shape)> estimate_memory;
  /// The task's input files: a Trainer refuses to overwrite them.
  std::vector<std::string> input_files;
  /// Throws Error if what the program writes after training cannot be written, and leaves nothing behind;
  /// called before training by the one rank that writes. Default: nothing else is written.
  std::function<void()> check_outputs;
  /// Settings of the task, by name as text; a checkpoint can only be resumed with the same ones.
  std::map<std::string, std::string> settings;
  /// Settings of the task that a resumed run may change, but that must be equal on all ranks.
  std::map<std::string, std::string> execution_settings;
};

/// A classification task: targets are i32 or i64 [N] in [0, C), the model's output is logits [N, C], the loss
/// is cross-entropy, and correct predictions are counted.
Task classification_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test);

/// A regression task: the loss is the mean squared error over the values of a target.
Task regression_task(std::string name, std::shared_ptr<const Dataset> train,
                     std::shared_ptr<const Dataset> test);

/// A language-modelling task: the samples are windows or sequences of T tokens (text/token_dataset.h). The
/// model gets the batch's tokens, i32 [B, T], and its output is logits [B, T, V] or [B T, V]; the loss is
/// cross-entropy, the mean over the targets that are not ignored. With `samples_per_epoch` above 0 an epoch
/// is that number of training samples drawn at random with replacement; otherwise it is all of them,
/// shuffled.
Task language_model_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test, std::int64_t samples_per_epoch = 0);

}  // namespace ringtape
