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

/// The result of training.
struct TrainingResult {
  EvaluationResult test{};
  std::int64_t steps = 0;    ///< updates of the weights, including those before a resume
  std::int64_t skipped = 0;  ///< number of updates skipped because a gradient was not finite
  double seconds = 0;        ///< of training and evaluation since the start or the resume
};

/// Training or an evaluation is complete, but its output is not: a file, or the checkpoint of the last step,
/// could not be written (the other files are written), or the test loss is not finite (all files are
/// written). Files that grow during the run (metrics, recorded values) only warn if they cannot be written.
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
/// With several ranks (dist/rank_environment.h), each rank makes a Trainer with the same task and options,
/// and the ranks divide every batch and, by the options, the model. Only rank 0 prints and writes files.
/// train/update.cpp has the loop over micro-batches, train/training_run.cpp the loop over steps.
class Trainer {
 public:
  /// Connects the ranks, makes the model, its arena and the optimizer, and loads weights if the options name
  /// a file. Throws Error for options that are out of range or contradict each other, a batch that the data
  /// ranks do not divide, ranks whose programs, options or data differ, a model that does not fit in memory,
  /// and files that cannot be read or written.
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
    Tensor grad_norm;  ///< likewise; also undefined if it is not measured
  };
  using Hook = std::function<void(const Step& step)>;
  /// Adds a function that is called on every rank before, or after, each step. Reading a tensor in a hook
  /// waits for the device. Throws Error for an empty function, and after train().
  void before_step(Hook hook);
  void after_step(Hook hook);

  /// Every `steps` steps, rank 0 shows the text that `make` returns, in the terminal and on the page of
  /// the report. `make` is called with the model in evaluation mode. It must not change the model or call
  /// collectives, as only rank 0 calls it; the other ranks wait for at least ten times the communication
  /// timeout. Its time does not count as training. Not called if the observation is quiet and there is no
  /// report. Throws Error for a number below 1, for an empty function, and after train().
  void text_every(std::int64_t steps, std::string title, std::function<std::string()> make);

  /// Trains, evaluates, and prints and writes the outputs selected by the options. Call it once. Throws Error
  /// for a run that diverges, for one in which every update was skipped, and for a checkpoint that cannot be
  /// resumed; OutputError if training is complete, but an output could not be written or the test loss is not
  /// finite. With ZeRO stage 3, a run that resumes must call it before evaluate() and whole_model().
  TrainingResult train();
  /// Evaluates the current weights and prints the result; before train() also writes it to the metrics file,
  /// whose previous content is lost. All ranks must call it. With ZeRO stage 3 the ranks shard the parameters
  /// from then on: those of model() have no memory outside of a forward or backward. Throws OutputError if
  /// the test loss is not finite, after it is printed and written.
  EvaluationResult evaluate();
  /// The undivided model on rank 0; null on the others. All ranks must call it. The result is model() itself,
  /// unless ranks divide the model or its sequences or shard the parameters (ZeRO stage 3): then it is a
  /// copy. With ZeRO stage 3 the parameters are sharded as by evaluate(). Throws Error if the task's
  /// make_model() returns the model of the run again.
  std::shared_ptr<Module> whole_model();
  /// A barrier with a longer timeout, for work that rank 0 does alone, such as writing a file. All ranks must
  /// call it, rank 0 after that work. The timeout is that of communication, plus the time in which a slow
  /// disk (50 MB/s) writes weights and optimizer state, plus `seconds`.
  void barrier(double seconds = 0);
  /// The learning rate over the run as a table and a chart.
  std::string schedule_text() const;
  /// The coordinates of each rank in the mesh.
  std::string mesh_text() const;
  /// The schedule of --pipeline-parallel for the micro-batches of a full update.
  std::string pipeline_text() const;
  /// The same schedule for one data rank, in a program that runs as a single rank. Throws Error for a batch
  /// or a model that cannot be divided into these micro-batches and stages.
  static std::string pipeline_text_of_one_rank(Task task, const TrainerOptions& options);

  /// This rank's model, which may be a part or a stage of the whole, its arena and optimizer, and the
  /// communicator of all ranks. They live as long as the trainer.
  Module& model() const;
  ParameterArena& arena() const;
  Optimizer& optimizer() const;
  Communicator& comm() const;

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace ringtape
