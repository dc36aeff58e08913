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
class Communicator;

/// The properties of an update, besides the model, on which its memory depends.
struct UpdateShape {
  std::int64_t micro_batch = 1;          ///< samples in a forward pass
  std::int64_t state_per_parameter = 0;  ///< f32 values in the optimizer's state per parameter element
  DType compute = DType::f32;
  GptPart part = {};  ///< the rank's part, if ranks divide the model or its sequences
};

using LossFunction = std::function<LossAndCorrect(Tensor prediction, const Tensor& targets, double divisor)>;

/// A training task: model, data and loss. Trainer contains what all tasks share. Functions with a default may
/// be left unset.
struct Task {
  std::string name;        ///< display name: "MNIST"
  std::string model_name;  ///< display name: "784-256-10"; may be empty

  /// Makes a new model. Called after the default generator was seeded, and again by Trainer::whole_model() if
  /// ranks have parts of the model. Every rank must make the same model.
  std::function<std::shared_ptr<Module>()> make_model;
  /// Makes a new model with layers from the factory, which ranks may divide (docs/parallel.md). Called
  /// instead of make_model, so that a task needs only one of the two. Default: none, and --tensor-parallel,
  /// --context-parallel and --pipeline-parallel are errors.
  std::function<std::shared_ptr<Module>(const std::shared_ptr<LayerFactory>& layers)> make_model_with;
  /// The tokens of a rank, and attention over those of all ranks of `comm`: for a model of sequences.
  /// language_model_task() sets context_part_over() (dist/ring_attention.h). Default: none, and
  /// --context-parallel is an error.
  std::function<std::shared_ptr<const ContextPart>(const std::shared_ptr<Communicator>& comm)> context_part;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;

  /// The order of the training samples, from the run's seed; its size is the number of samples in an epoch.
  /// Default: all samples, shuffled (RandomSampler).
  std::function<std::shared_ptr<const Sampler>(std::uint64_t seed)> order;

  /// Converts a batch's features from the dataset to the model's input of `dtype`. Default: to().
  std::function<Tensor(const Tensor& features, DType dtype)> prepare;
  /// The sum of the losses of a batch, divided by `divisor`: an f32 scalar. It owns the prediction, so that
  /// the gradient can reuse its memory (see cross_entropy()). With `counts_correct` it also returns the
  /// number of correct predictions of the batch. A run refuses a loss that does not divide by `divisor`, such
  /// as a batch's mean: accumulation, the ranks and the last batch of an epoch would scale it wrongly.
  LossFunction loss;
  /// Whether `loss` returns the number of correct predictions. Default: no, and no accuracy is printed.
  bool counts_correct = false;
  /// The loss of a model whose output layer is made by the factory's by_vocabulary(). Called instead of
  /// `loss`, and not checked, if ranks divide the model or its sequences; not together with counts_correct.
  /// Default: `loss`.
  std::function<Tensor(const LayerFactory& layers, Tensor prediction, const Tensor& targets, double divisor)>
      loss_with;
  /// The number of non-ignored targets of a batch on the CPU, over which the mean loss is taken. Training
  /// does not call it if the dataset knows the number (Dataset::targets_per_sample()); evaluation does.
  /// Default: one for each sample.
  std::function<std::int64_t(const Batch& batch)> count_targets;

  /// The unit of the throughput, such as "tokens", and the number of units in a sample. Default: samples.
  std::string unit = "samples";
  std::int64_t units_per_sample = 1;
  /// FLOPs of forward and backward for a sample, for the model FLOPs utilisation. 0: unknown.
  double flops_per_sample = 0;

  /// The memory of an update by formula, for --memory-report, --report and the check that the model fits in
  /// memory; 0 bytes if there is no formula for `shape.part`. Default: no formula.
  std::function<BytesByCategory(const UpdateShape& shape)> estimate_memory;
  /// The task's input files: a Trainer refuses to overwrite them.
  std::vector<std::string> input_files;
  /// Throws Error if a file that the program writes after training cannot be written; must leave no file
  /// behind. Called before training, on rank 0 only. Default: the program writes no such files.
  std::function<void()> check_outputs;
  /// Settings of the task, by name, as text; a checkpoint can only be resumed with the same settings.
  std::map<std::string, std::string> settings;
  /// Settings of the task that a resumed run may change, but that must be the same on all ranks.
  std::map<std::string, std::string> execution_settings;
};

/// The task as a run uses it. The first call of a task's own loss computes it without a gradient by two
/// divisors, and throws Error unless they divide it; the losses of the functions below are not checked.
/// Throws Error for a task without a model, a loss or data; for one whose loss is its own, but whose
/// loss_with is that of language_model_task(); and for one with loss_with and counts_correct.
Task checked_task(Task task);

/// A classification task: targets are i32 or i64 [N] in [0, C), none is ignored, the model's output is logits
/// [N, C], the loss is cross-entropy, and correct predictions are counted.
Task classification_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test);

/// A regression task: targets are f32, and the loss is the mean squared error over all values of the targets.
Task regression_task(std::string name, std::shared_ptr<const Dataset> train,
                     std::shared_ptr<const Dataset> test);

/// A language-modelling task: the samples are windows or sequences of T tokens (text/token_dataset.h). The
/// model gets the batch's tokens, i32 [B, T], and its output is logits [B, T, V] or [B T, V]; the loss is
/// cross-entropy, the mean over the targets that are not ignored. With `samples_per_epoch` above 0 an epoch
/// has that number of training samples, drawn at random with replacement; with 0 it has all of them,
/// shuffled. Throws Error for a negative number.
Task language_model_task(std::string name, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test, std::int64_t samples_per_epoch = 0);

}  // namespace ringtape
