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

/// The schedule of a pipeline, and how else ranks divide the tensors between stages.
struct PipelineOptions {
  PipelineScheduleKind schedule = PipelineScheduleKind::one_f_one_b;
  bool sequence = false;       ///< sequence parallelism: between stages a rank has a part of each sequence
  bool check_layouts = false;  ///< run a LayoutCheck, for stages that tensor parallelism divides
  bool context = false;        ///< run a LayoutCheck for context parallelism, even without check_layouts
  /// The tasks of a stage in order, instead of the schedule's: the forward and the backward of each
  /// micro-batch through each chunk, once each.
  std::function<std::vector<StageTask>(const PipelineShape&, int stage)> order = nullptr;
};

/// A stage of a pipeline: runs this rank's units of a model for the micro-batches of an update, in the order
/// of a schedule, and sends results and gradients to the neighbouring stages (docs/parallel.md). A forward
/// receives its input, runs the chunk on its own tape and sends the result. A backward receives the result's
/// gradient and runs that tape, whose first node sends the gradient of the input.
class Pipeline {
 public:
  /// `model` has been made with `stages`, and both must outlive the pipeline; `comm` connects the stages in
  /// order, and all of its ranks must call this. Throws Error unless stages.place() is this rank's stage, the
  /// number of stages is comm's size, and there are at least two.
  Pipeline(Module& model, const Stages& stages, std::shared_ptr<Communicator> comm,
           const PipelineOptions& options);
  /// All ranks of `comm` must destroy it at the same time, as an NCCL communicator's destructor may wait for
  /// the other ranks.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// The two ends of the model. All stages get all functions; the first calls `input`, the last `loss` and
  /// `backward`.
  struct Callbacks {
    /// The model's input. Called one more time for the first micro-batch of a new shape, to infer shapes.
    std::function<Tensor(std::size_t micro_batch)> input;
    /// The loss of the model's output, a scalar.
    std::function<Tensor(Tensor output, std::size_t micro_batch)> loss;
    /// Runs the backward of the loss.
    std::function<void(const Tensor& loss)> backward;
    /// On every stage: calls `run`, the backward of a micro-batch through a chunk; null: `run` is called
    /// directly.
    std::function<void(std::size_t micro_batch, const std::function<void()>& run)> around_backward = nullptr;
  };
  /// Forward and backward of one micro-batch for each of `shapes`, the shapes of the micro-batches' inputs;
  /// gradients are added up in the order of micro-batches. All stages must call it with the same shapes.
  /// Random numbers are the same as on one rank that computes the micro-batches one after the other. Throws
  /// Error, on all stages and before anything is computed, for an order that lacks tasks or in which a stage
  /// would wait for ever.
  void forward_backward(const std::vector<Shape>& shapes, const Callbacks& callbacks);
  /// The model's output for `input` on the last stage; undefined on the others. Stages after the first read
  /// only the shape of `input`. All stages must call it. Records nothing on the tape.
  Tensor forward(const Tensor& input);

  /// Adds up the gradients of parameters that two stages have (tied weights). Call it once per update, after
  /// the mean over data ranks. `arena`: the model's, which may be sharded; null for none.
  void sum_tied_gradients(const ParameterArena* arena = nullptr);

  /// A parameter that this stage and another one have, and the communicator of these two ranks.
  struct TiedPair {
    std::string name;
    bool is_owner;  ///< this stage owns it, and the other has a copy
    Tensor* parameter;
    std::shared_ptr<Communicator> pair;
  };
  const std::vector<TiedPair>& copies() const { return copies_; }
  /// For ParameterArena::set_stages(): the sums over the stages that the arena needs.
  ModelStages of_arena() const;

  /// The communicator of all stages.
  Communicator& comm() const { return *comm_; }
  /// The other communicators of this rank: with its neighbours (null for no neighbour), and for copies().
  std::vector<std::shared_ptr<Communicator>> communicators() const;
  bool is_last() const { return comm_->rank() + 1 == comm_->size(); }

 private:
  /// The two communicators with a neighbour, in which the neighbour is rank 1 - rank().
  struct Link {
    std::shared_ptr<Communicator> results, gradients;
  };
  /// A chunk's input, and the number of random counters that the parts before it use.
  struct ChunkInput {
    Shape shape;
    DType dtype = DType::f32;
    std::uint64_t counters = 0;
  };
  /// The properties of a forward that a stage needs before it runs it.
  struct ForwardPlan {
    std::vector<ChunkInput> chunks;
    std::uint64_t counters = 0;  ///< of the whole model
  };
  /// A forward whose backward has not run.
  struct InFlight {
    Tape tape;
    Tensor result;  ///< of the chunk; for the model's last part the loss
    Work sent;      ///< the result's send
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
  std::map<std::string, ForwardPlan> plans_;  // by the input's shape and the mode
  std::vector<StageTask> tasks_of_previous_;  // the previous stage's tasks in this update
  std::vector<SentGradient> sent_gradients_;
};

}  // namespace ringtape
