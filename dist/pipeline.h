#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "dist/communicator.h"
#include "dist/pipeline_schedule.h"
#include "nn/arena.h"
#include "nn/module.h"
#include "nn/stages.h"

namespace ringtape {

/// The schedule of a pipeline, and what else divides the tensors between stages.
struct PipelineOptions {
  PipelineScheduleKind schedule = PipelineScheduleKind::one_f_one_b;
  bool sequence = false;       ///< between stages a rank has its part of each sequence (sequence parallelism)
  bool check_layouts = false;  ///< run a LayoutCheck, for stages that tensor parallelism divides
  bool context = false;        ///< run a LayoutCheck for context parallelism, without check_layouts too
  /// The tasks of a stage in their order, in place of the schedule's: each chunk's forward and backward of
  /// each micro-batch once.
  std::function<std::vector<StageTask>(const PipelineShape&, int stage)> order = nullptr;
};

/// A stage of a pipeline: runs this rank's units of a model for the micro-batches of an update, in the order
/// of a schedule, and sends results and gradients to the neighbouring stages (docs/parallel.md). A forward
/// receives its input, runs the chunk on a tape of its own and sends the result. A backward receives the
/// gradient and runs that tape, whose first node sends the gradient of the input.
class Pipeline {
 public:
  /// `model` has been made with `stages`, and both must outlive the pipeline; `comm` connects the stages in
  /// their order, and all of its ranks must call this. Throws Error unless `comm` has as many ranks as there
  /// are stages, at least two, and this rank's number is its stage's.
  Pipeline(Module& model, const Stages& stages, std::shared_ptr<Communicator> comm,
           const PipelineOptions& options);
  /// All ranks of `comm` must destroy it at the same time, as with NCCL a communicator may wait for the
  /// others.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// The two ends of the model. Each stage has all functions and calls the functions of the ends that it has.
  struct Callbacks {
    /// The model's input. Called once more for the first micro-batch of a new shape, to infer shapes.
    std::function<Tensor(std::size_t micro_batch)> input;
    /// The loss of the model's output, a scalar.
    std::function<Tensor(Tensor output, std::size_t micro_batch)> loss;
    std::function<void(const Tensor& loss)> backward;
    /// Runs a chunk's backward of a micro-batch, on every stage; null: as it is.
    std::function<void(std::size_t micro_batch, const std::function<void()>& run)> around_backward = nullptr;
  };
  /// Forward and backward of a micro-batch for each of `shapes`, the shapes of the micro-batches' samples;
  /// gradients are added up in the order of micro-batches. All stages must call it with the same shapes.
  /// Random numbers are the same as on one rank that computes the micro-batches one after the other. Throws
  /// Error, on all stages and before anything is computed, for an order by which a stage would wait for ever.
  void forward_backward(const std::vector<Shape>& shapes, const Callbacks& callbacks);
  /// The model's output for `input` on the last stage; undefined on the others. Stages after the first read
  /// only the shape of `input`. All stages must call it. Records nothing on the tape.
  Tensor forward(const Tensor& input);

  /// Adds up the gradients of a parameter that two stages have (tied weights), once an update and after the
  /// mean over data ranks. `arena`: the model's, of which this rank may have slices; null for none.
  void sum_tied_gradients(const ParameterArena* arena = nullptr);

  /// A parameter that this rank and another stage's have, and the communicator of these two.
  struct TiedPair {
    std::string name;
    bool is_owner;  ///< it is this stage's, and the other one's a copy
    Tensor* parameter;
    std::shared_ptr<Communicator> pair;
  };
  const std::vector<TiedPair>& copies() const { return copies_; }
  /// What the arena of this stage must know of the others.
  ModelStages of_arena() const;

  Communicator& comm() const { return *comm_; }
  /// The other communicators of this rank: with its neighbours, and for copies(). Null where there is none.
  std::vector<std::shared_ptr<Communicator>> communicators() const;
  bool is_last() const { return comm_->rank() + 1 == comm_->size(); }

 private:
  /// The two communicators with a neighbour. It is rank 1 - rank() there.
  struct Link {
    std::shared_ptr<Communicator> results, gradients;
  };
  /// A chunk's input, and the counters of random numbers that the parts before it use.
  struct ChunkInput {
    Shape shape;
    DType dtype = DType::f32;
    std::uint64_t counters = 0;
  };
  /// What a stage must know of a forward before it runs it.
  struct ForwardPlan {
    std::vector<ChunkInput> chunks;
    std::uint64_t counters = 0;  ///< of the whole model
  };
  /// A forward whose backward has not run.
  struct InFlight {
    Tape tape;
    Tensor result;  ///< the loss of the model's last part
    Work sent;
  };
  /// A gradient that has been sent, and the task of the previous stage that receives it.
  struct SentGradient {
    StageTask receiver;
    Tensor gradient;
    Work sent;
  };

  std::vector<std::vector<StageTask>> tasks_of(int micro_batches) const;
  StageTask in_previous(StageTask task) const;
  void free_received_gradients(const StageTask& forward);
  std::size_t part_of(int chunk) const;
  bool is_last_part(int chunk) const { return part_of(chunk) + 2 == stages_.begins().size(); }
  const ForwardPlan& plan(const Shape& shape, const std::function<Tensor()>& input);
  ForwardPlan infer_shapes(const std::function<Tensor()>& input);
  Tensor run_chunk(int chunk, const Tensor& x);
  Tensor input_of(const StageTask& task, const ForwardPlan& plan, const std::function<Tensor()>& input);
  void forward(InFlight& flight, const StageTask& task, const ForwardPlan& plan, const Callbacks& callbacks);
  void backward(InFlight& flight, const StageTask& task, const Callbacks& callbacks);

  Module& model_;
  const Stages& stages_;
  std::shared_ptr<Communicator> comm_;
  PipelineOptions options_;
  Link previous_, next_;
  std::vector<TiedPair> copies_;
  std::map<std::string, ForwardPlan> plans_;  // by the samples' shape and the mode
  std::vector<StageTask> tasks_of_previous_;  // of this update
  std::vector<SentGradient> sent_gradients_;
};

}  // namespace ringtape
