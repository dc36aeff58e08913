#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/tape_graph.h"
#include "core/graph.h"
#include "data/loader.h"
#include "dist/data_parallel.h"
#include "dist/mesh.h"
#include "dist/pipeline.h"
#include "nn/arena.h"
#include "nn/module.h"
#include "optim/accumulation.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "train/options.h"
#include "train/task.h"
#include "train/value_record.h"

namespace ringtape {

/// The results of an update; the tensors are f32 scalars on the device.
struct UpdateResult {
  Tensor loss;
  Tensor correct;            ///< correct predictions; undefined unless Task::counts_correct
  Tensor grad_norm;          ///< undefined if it was not measured
  std::int64_t targets = 0;  ///< non-ignored targets, over which the loss is a mean
};

/// One update of the weights: forward and backward of each micro-batch, the mean over the ranks, clipping,
/// the optimizer's step. The host does not wait for the device with one rank, nor with several ranks if each
/// has the same number of samples and all samples have the same number of targets
/// (Dataset::targets_per_sample()).
///
/// With TrainerOptions::graph an update is captured as a CUDA graph and replayed. Values that differ between
/// updates (samples, learning rate) are in device memory. A graph is for one number of samples and one number
/// of non-ignored targets, because these set the sizes and the divisor of its kernels. The first update of
/// new sizes, such as the short last one of an epoch, runs without a graph; the second is captured. There are
/// graphs for the first four sizes; updates of other sizes run without one.
class Update {
 public:
  /// `mesh`: gradients and losses are averaged over its data_and_context(). `pipeline`: null unless the model
  /// is divided into stages. `scaler`: null without a loss scale. `measure_grad_norm`: measure the gradient
  /// norm even without clipping. All references must outlive this object.
  Update(const Task& task, const TrainerOptions& options, Module& model, ParameterArena& arena,
         Optimizer& optimizer, LossScaler* scaler, bool measure_grad_norm, const Mesh& mesh,
         Pipeline* pipeline = nullptr);

  /// `batch` holds this rank's samples of the update; it is empty if only other ranks have samples left.
  /// `samples` is the total over the ranks that divide the batch. If no rank has a non-ignored target, no
  /// weight changes. The result is over all ranks.
  UpdateResult operator()(const std::optional<Batch>& batch, std::int64_t samples);

  /// Records the values of later updates in `values`; null: in none.
  void observe(ValueRecord* values) { values_ = values; }

  /// The nodes of the first graph that was captured; empty before, and unless the options print or save them.
  const std::vector<GraphNode>& graph_nodes() const { return graph_nodes_; }
  /// The tape of the first forward, for drawings; none before it, and unless the options draw it.
  const std::optional<TapeGraph>& tape() const { return tape_; }

 private:
  /// Features and targets on the device, one pair for each micro-batch.
  using Inputs = std::function<std::pair<Tensor, Tensor>(std::size_t micro_batch)>;
  /// A captured update: the memory of its samples and of its result.
  struct Graphed {
    std::vector<std::pair<Tensor, Tensor>> inputs;
    UpdateResult result;
    std::unique_ptr<Replay> replay;
    std::vector<GraphNode> nodes;  // once captured, if the options print or save them
  };

  /// `features`: the shapes of the micro-batches' features.
  UpdateResult compute(const std::vector<Shape>& features, const Inputs& inputs);
  UpdateResult replay(const Batch& batch, const std::vector<MicroBatch>& pieces);
  void zero_gradients();
  static std::pair<Tensor, Tensor> get(const Inputs& inputs, std::size_t micro_batch);
  void run_micro_batches(std::size_t micro_batches, const Inputs& inputs, UpdateResult& sum);
  void run_in_stages(const std::vector<Shape>& features, const Inputs& inputs, UpdateResult& sum);
  void reduce(UpdateResult& result);
  void step(UpdateResult& result);
  /// The loss; adds up the correct predictions.
  Tensor forward(const Tensor& features, const Tensor& targets, UpdateResult& sum);
  Tensor loss_of(Tensor prediction, const Tensor& targets, UpdateResult& sum);
  void backward(const Tensor& loss, UpdateResult& sum);
  void forward_backward(const Tensor& features, const Tensor& targets, UpdateResult& sum);
  void reduce_results(UpdateResult& result);
  void clip_after_micro_batch(std::size_t micro_batches);
  /// Measures the gradient norm and clips; a step whose norm is not finite is skipped.
  Tensor clip();

  const Task& task_;
  const TrainerOptions& options_;
  Module& model_;
  ParameterArena& arena_;
  Optimizer& optimizer_;
  LossScaler* scaler_;
  bool measure_grad_norm_;
  bool print_tape_;
  bool keeps_tape_;
  std::optional<TapeGraph> tape_;
  ValueRecord* values_ = nullptr;
  std::shared_ptr<Communicator> comm_;  // of the ranks over which gradients are averaged
  MeshSizes ranks_;
  Pipeline* pipeline_;
  std::int64_t samples_ = 0;  // of the current update, on all ranks
  DataParallel parallel_;
  AccumulationWindow window_;
  std::vector<GraphNode> graph_nodes_;
  std::map<std::pair<std::int64_t, std::int64_t>, Graphed> graphs_;  // by samples and non-ignored targets
};

}  // namespace ringtape
