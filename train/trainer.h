#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dist/communicator.h"
#include "nn/arena.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "train/evaluation.h"
#include "train/options.h"
#include "train/task.h"

namespace ringtape {

/// How a training ended.
struct TrainingResult {
  EvaluationResult test{};
  std::int64_t steps = 0;    ///< updates of the weights, with those before a resumed run
  std::int64_t skipped = 0;  ///< of them, without effect because a gradient was not finite
  double seconds = 0;        ///< of training and evaluation since the start or the resume
};

/// Trains a model: the loop over epochs, updates with accumulation over micro-batches, the mean over ranks,
/// mixed precision, clipping and a schedule; evaluation after every epoch; metrics, checkpoints and resume;
/// and on request a profile, a timeline of all ranks, memory, and a page about the run.
///
///   Task task = classification_task("digits", train, test);
///   task.make_model = [] { return make_mlp({784, 256, 10}); };
///   TrainerOptions options;
///   options.data.batch_size = 256;
///   options.accumulation.micro_batch = 64;
///   Trainer(task, options).train();
///
/// Started as several ranks (dist/rank_environment.h), each rank makes a Trainer with the same task and
/// options, and they share every batch. Rank 0 alone prints and writes files. train/update.h holds the loop
/// over micro-batches, train/training_run.cpp the loop over steps.
class Trainer {
 public:
  /// Connects the ranks, makes the model, its arena and the optimizer, and loads weights where the options
  /// say so. Throws Error for options out of range or that contradict each other, a batch that the ranks
  /// cannot share evenly, ranks whose options differ, and files that cannot be written.
  Trainer(Task task, TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// A step of the run, counted from 1.
  struct Step {
    std::int64_t number = 0;
    std::int64_t epoch = 0;  ///< counted from 1
    double learning_rate = 0;
    Tensor loss;       ///< f32 scalar on the device; undefined before the step
    Tensor grad_norm;  ///< likewise; undefined where it is not measured
  };
  using Hook = std::function<void(const Step& step)>;
  /// Called on every rank before each step and after it. Reading a tensor in a hook waits for the device.
  void before_step(Hook hook);
  void after_step(Hook hook);

  /// Trains, evaluates, and prints and writes all that the options ask for. To be called once. Throws Error
  /// for a run that diverges.
  TrainingResult train();
  /// Evaluates the weights as they are, and prints the result.
  EvaluationResult evaluate();
  /// The learning rate of every step as a table and a chart.
  std::string schedule_text() const;

  Module& model() const;
  ParameterArena& arena() const;
  Optimizer& optimizer() const;
  Communicator& comm() const;

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace ringtape
