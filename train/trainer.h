#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/error.h"
#include "dist/communicator.h"
#include "nn/arena.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "train/evaluation.h"
#include "train/options.h"
#include "train/task.h"

namespace ringtape {

/// The result of a training.
struct TrainingResult {
  EvaluationResult test{};
  std::int64_t steps = 0;    ///< updates of the weights, including those before a resume
  std::int64_t skipped = 0;  ///< number of updates skipped because a gradient was not finite
  double seconds = 0;        ///< of training and evaluation since the start or the resume
};

/// The training is complete, but not its output: a file, or the checkpoint of the last step, could not be
/// written (the other files are written), or the test loss is not finite (all files are written).
class OutputError : public Error {
 public:
  using Error::Error;
};

/// Trains a model: the loop over epochs, updates with accumulation over micro-batches, the mean over ranks,
/// mixed precision, clipping and a schedule; evaluation after every epoch; metrics, checkpoints and resume;
/// and optionally a profile, a timeline of all ranks, a memory report, and a page about the run.
///
///   Task task = classification_task("digits", train, test);
///   task.make_model = [] { return make_mlp({784, 256, 10}); };
///   TrainerOptions options;
///   options.data.batch_size = 256;
///   options.accumulation.micro_batch = 64;
///   Trainer(task, options).train();
///
/// Started as several ranks (dist/rank_environment.h), each rank makes a Trainer with the same task and
/// options, and every batch is divided among them. Only rank 0 prints and writes files. train/update.h holds
/// the loop over micro-batches, train/training_run.cpp the loop over steps.
class Trainer {
 public:
  /// Connects the ranks, makes the model, its arena and the optimizer, and loads weights if the options name
  /// a file. Throws Error for options out of range or that contradict each other, a batch that is not
  /// divisible by the ranks, ranks whose options differ, and files that cannot be written.
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
    Tensor grad_norm;  ///< likewise; undefined if it is not measured
  };
  using Hook = std::function<void(const Step& step)>;
  /// Called on every rank before each step and after it. Reading a tensor in a hook waits for the device.
  void before_step(Hook hook);
  void after_step(Hook hook);

  /// After every `steps` steps, on rank 0: shows the text that `make` returns, in the terminal and on the
  /// page of --report. `make` is called with the model in evaluation mode, must not change the model, and
  /// must not call operations between ranks, as only rank 0 calls `make`; the other ranks wait for ten
  /// timeouts of such an operation. The time of `make` does not count as training. With --quiet and without
  /// --report `make` is not called. Throws Error for a number below 1 and an empty function.
  void text_every(std::int64_t steps, std::string title, std::function<std::string()> make);

  /// Trains, evaluates, and prints and writes the outputs selected by the options. Call it once. Throws Error
  /// for a run that diverges, OutputError where the training is complete, but an output could not be written
  /// or the test loss is not finite.
  TrainingResult train();
  /// Evaluates the current weights, and prints the result; before train() also writes it to the metrics file,
  /// whose earlier content is then gone. All ranks must call it.
  EvaluationResult evaluate();
  /// The model as one rank would have it, on the first rank; null on the others. All ranks must call it. The
  /// result is model() itself unless ranks divide the model or its sequences between them or shard its values
  /// (ZeRO stage 3): then it is a copy. Throws Error for a task that made the same model twice.
  std::shared_ptr<Module> whole_model();
  /// All ranks call it, the first one when it has done something alone, such as writing a file: returns when
  /// all have called. The others wait for the timeout of an operation between ranks, plus the time in which a
  /// slow disk (50 MB/s) takes weights and optimizer state, plus `seconds`.
  void wait_for_first(double seconds = 0);
  /// The learning rate of every step as a table and a chart.
  std::string schedule_text() const;
  /// The place of each rank in the mesh, and the schedule of a full update's micro-batches through the stages
  /// of --pipeline-parallel.
  std::string mesh_text() const;
  std::string pipeline_text() const;
  /// The same schedule for one data rank, where the stages have no ranks. Throws Error for a batch or a model
  /// that these stages would refuse.
  static std::string pipeline_text_of_one_rank(Task task, const TrainerOptions& options);

  /// The parts of this rank, which live as long as the trainer: a model of which it may have a part or a
  /// stage, and the communicator of all ranks.
  Module& model() const;
  ParameterArena& arena() const;
  Optimizer& optimizer() const;
  Communicator& comm() const;

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace ringtape
