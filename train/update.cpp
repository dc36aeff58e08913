#include "train/update.h"

#include <cmath>
#include <utility>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/memory.h"
#include "dist/layout_check.h"
#include "optim/clip.h"
#include "trace/spans.h"
#include "train/make.h"
#include "train/model_input.h"

namespace ringtape {
namespace {

/// Full batches and the short last batch of an epoch need two graphs.
constexpr std::size_t kMaxGraphs = 4;

void add_to(Tensor& sum, const Tensor& value) {
  sum = sum.defined() ? add(sum, value) : value;
}

/// The number of micro-batches of the rank with the fewest. DistributedSampler assigns samples round-robin,
/// so the ranks' numbers of samples in an update differ by at most one.
std::size_t min_micro_batches(std::int64_t samples, int world_size, std::int64_t micro_batch) {
  if (micro_batch <= 0) return 1;
  return cut_into_micro_batches(samples / world_size, micro_batch).size();
}

}  // namespace

Update::Update(const Task& task, const TrainerOptions& options, Module& model, ParameterArena& arena,
               Optimizer& optimizer, LossScaler* scaler, bool measure_grad_norm, const Mesh& mesh,
               Pipeline* pipeline)
    : task_(task),
      options_(options),
      model_(model),
      arena_(arena),
      optimizer_(optimizer),
      scaler_(scaler),
      measure_grad_norm_(measure_grad_norm),
      print_tape_(options.observation.print_tape),
      keeps_tape_(!options.observation.save_tape.empty() || !options.observation.report.empty()),
      comm_(mesh.data_and_context()),
      ranks_(mesh.sizes()),
      pipeline_(pipeline),
      parallel_(model, arena, comm_,
                {.bucket_sizes = bucket_sizes(options.distribution),
                 .overlap = !options.distribution.no_overlap,
                 .allow_unused = false,
                 .hook = make_comm_hook(options.distribution, arena, comm_->size())}),
      window_(comm_->size(), sum_over(comm_)) {}

UpdateResult Update::operator()(const std::optional<Batch>& batch, std::int64_t samples) {
  samples_ = samples;
  // DistributedSampler assigns samples round-robin.
  parallel_.promise_equal_ranks(samples % ranks_.data == 0);
  const std::optional<std::int64_t> targets_per_sample =
      task_.count_targets ? task_.train->targets_per_sample() : 1;
  if (targets_per_sample) {
    window_.begin_with_all(samples * *targets_per_sample);
  } else {
    window_.begin(batch ? task_.count_targets(*batch) : 0);
  }
  if (!batch) return compute({}, nullptr);
  const std::int64_t given = options_.accumulation.micro_batch;
  const std::int64_t micro_batch = given > 0 ? given : batch->size();
  const std::vector<MicroBatch> pieces = cut_into_micro_batches(batch->size(), micro_batch);
  const std::pair sizes(batch->size(), window_.targets());
  const bool has_graph = graphs_.size() < kMaxGraphs || graphs_.contains(sizes);
  if (options_.graph && has_graph) return replay(*batch, pieces);
  const auto piece = [&](std::size_t i) { return batch->slice(pieces[i].first, pieces[i].size); };
  std::vector<Shape> features;
  for (std::size_t i = 0; i < pieces.size(); ++i) features.push_back(piece(i).features().shape());
  return compute(features, [&](std::size_t i) { return piece(i).to(arena_.device()); });
}

UpdateResult Update::replay(const Batch& batch, const std::vector<MicroBatch>& pieces) {
  Graphed& graphed = graphs_[{batch.size(), window_.targets()}];
  if (graphed.replay == nullptr) {
    std::vector<Shape> features;
    for (const MicroBatch& piece : pieces) {
      const Batch samples = batch.slice(piece.first, piece.size);
      const auto like = [&](const Tensor& host) {
        return empty(host.shape(), host.dtype(), arena_.device());
      };
      graphed.inputs.emplace_back(like(samples.features()), like(samples.targets()));
      features.push_back(samples.features().shape());
    }
    const ObservationOptions& see = options_.observation;
    const bool is_listed = see.print_graph || !see.save_graph.empty();
    graphed.replay = std::make_unique<Replay>(
        arena_.device(),
        [this, &graphed, features] {
          graphed.result = {};  // frees its memory for reuse
          graphed.result = compute(features, [&](std::size_t i) { return graphed.inputs[i]; });
        },
        is_listed ? &graphed.nodes : nullptr);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    batch.slice(pieces[i].first, pieces[i].size).copy_to(graphed.inputs[i].first, graphed.inputs[i].second);
  }
  const SpanScope span(SpanKind::operation, "replay graph");
  (*graphed.replay)();
  if (graph_nodes_.empty()) graph_nodes_ = graphed.nodes;
  return graphed.result;
}

UpdateResult Update::compute(const std::vector<Shape>& features, const Inputs& inputs) {
  UpdateResult result;
  result.targets = window_.targets();
  zero_gradients();
  if (pipeline_ != nullptr) {
    run_in_stages(features, inputs, result);
  } else {
    run_micro_batches(features.size(), inputs, result);
  }
  reduce(result);
  if (values_ != nullptr && !arena_.is_sharded()) values_->gradients(model_);
  if (window_.targets() > 0) step(result);
  return result;
}

void Update::zero_gradients() {
  const SpanScope phase(SpanKind::phase, "optimizer");
  const SpanScope span(SpanKind::operation, "zero_grad");
  optimizer_.zero_grad();
}

std::pair<Tensor, Tensor> Update::get(const Inputs& inputs, std::size_t micro_batch) {
  const SpanScope phase(SpanKind::phase, "data");
  const SpanScope span(SpanKind::operation, "batch to device");
  return inputs(micro_batch);
}

/// Runs the micro-batches one after another; the backward of the last reduces the gradients, or that of each
/// with sync_each_micro_batch.
void Update::run_micro_batches(std::size_t micro_batches, const Inputs& inputs, UpdateResult& sum) {
  // All ranks must run the same number of reducing backwards.
  const std::size_t reducing =
      options_.accumulation.sync_each_micro_batch
          ? min_micro_batches(samples_, ranks_.data, options_.accumulation.micro_batch)
          : 1;
  for (std::size_t i = 0; i < micro_batches; ++i) {
    const auto [features, targets] = get(inputs, i);
    const bool reduces = i + 1 < reducing || i + 1 == micro_batches;
    // Clipping changes this rank's gradients, so finish() must reduce them afterwards.
    const auto scope = parallel_.no_sync(!reduces || options_.optimizer.clip_each_micro_batch);
    if (values_ != nullptr) values_->begin_micro_batch(static_cast<std::int64_t>(i));
    forward_backward(features, targets, sum);
    if (options_.optimizer.clip_each_micro_batch) clip_after_micro_batch(micro_batches);
  }
}

/// Runs the micro-batches through the stages of a pipeline. The backwards of the last one reduce the
/// gradients. Only the first stage reads features, and only the last one targets.
void Update::run_in_stages(const std::vector<Shape>& features, const Inputs& inputs, UpdateResult& sum) {
  pipeline_->forward_backward(
      features,
      {.input =
           [&](std::size_t i) { return model_input(task_, get(inputs, i).first, arena_.compute_dtype()); },
       .loss = [&](Tensor output,
                   std::size_t i) { return loss_of(std::move(output), get(inputs, i).second, sum); },
       .backward = [&](const Tensor& loss) { backward(loss, sum); },
       .around_backward =
           [&](std::size_t i, const std::function<void()>& run) {
             const auto scope = parallel_.no_sync(i + 1 < features.size());
             run();
           }});
}

/// Ends the window: averages the gradients that no backward has reduced, sums the gradients of tied weights
/// and of sequence parallelism, and reduces loss and correct predictions over the ranks.
void Update::reduce(UpdateResult& result) {
  std::optional<SpanScope> phase;  // one rank communicates with none
  if (ranks_.ranks() > 1) phase.emplace(SpanKind::phase, "all-reduce");
  parallel_.finish();
  if (pipeline_ != nullptr) pipeline_->sum_tied_gradients(&arena_);
  arena_.sum_parts_of_gradients();
  reduce_results(result);
}

void Update::step(UpdateResult& result) {
  const SpanScope phase(SpanKind::phase, "optimizer");
  result.grad_norm = clip();
  const SpanScope span(SpanKind::operation, "optimizer step");
  optimizer_.step();
  if (scaler_ != nullptr) scaler_->update();
}

Tensor Update::forward(const Tensor& features, const Tensor& targets, UpdateResult& sum) {
  const Tensor input = model_input(task_, features, arena_.compute_dtype());
  const SpanScope span(SpanKind::phase, "forward");
  return loss_of(model_(input), targets, sum);
}

Tensor Update::loss_of(Tensor prediction, const Tensor& targets, UpdateResult& sum) {
  LossAndCorrect result = task_.loss(std::move(prediction), targets, window_.divisor());
  if (task_.counts_correct) add_to(sum.correct, result.correct);
  return std::move(result.loss);
}

void Update::forward_backward(const Tensor& features, const Tensor& targets, UpdateResult& sum) {
  const TapeScope scope;
  std::optional<LayoutCheck> layouts;
  const bool has_context = ranks_.context > 1;
  if (arena_.division() || has_context) layouts.emplace(values_, has_context);
  const TapeObserverScope observed(layouts ? static_cast<TapeObserver*>(&*layouts) : values_);
  const Tensor loss = forward(features, targets, sum);
  if (std::exchange(print_tape_, false)) Tape::current().print();
  if (std::exchange(keeps_tape_, false)) tape_ = graph_of(Tape::current());
  const SpanScope span(SpanKind::phase, "backward");
  backward(loss, sum);
}

void Update::backward(const Tensor& loss, UpdateResult& sum) {
  scaler_ != nullptr ? scaler_->backward(loss) : loss.backward();
  add_to(sum.loss, loss.detach());
}

/// Reduces the loss (mean) and the correct predictions (sum) over the ranks. With stages, only the last has
/// them.
void Update::reduce_results(UpdateResult& result) {
  if (comm_->size() == 1 && pipeline_ == nullptr) return;
  if (!result.loss.defined()) result.loss = zeros({}, DType::f32, arena_.device());
  const Work loss = comm_->all_reduce(result.loss, ReduceOp::mean);
  Work correct;
  if (task_.counts_correct) {
    if (!result.correct.defined()) result.correct = zeros({}, DType::f32, arena_.device());
    correct = comm_->all_reduce(result.correct, ReduceOp::sum);
  }
  loss.wait();
  correct.wait();
  if (pipeline_ == nullptr) return;
  pipeline_->comm().all_reduce(result.loss, ReduceOp::sum).wait();
  if (task_.counts_correct) pipeline_->comm().all_reduce(result.correct, ReduceOp::sum).wait();
}

void Update::clip_after_micro_batch(std::size_t micro_batches) {
  const SpanScope phase(SpanKind::phase, "optimizer");
  const SpanScope span(SpanKind::operation, "clip");
  const double limit = options_.optimizer.clip_norm / std::sqrt(static_cast<double>(micro_batches));
  clip_grad_norm_now(arena_, limit, options_.optimizer.clip_norm_type);
}

Tensor Update::clip() {
  const SpanScope span(SpanKind::operation, "clip");
  if (options_.optimizer.clip_value > 0) clip_grad_value(arena_, options_.optimizer.clip_value);
  const bool can_skip = options_.optimizer.clip_norm > 0 || scaler_ != nullptr;
  if (!can_skip && !measure_grad_norm_) return {};
  const bool clips_norm = options_.optimizer.clip_norm > 0 && !options_.optimizer.clip_each_micro_batch;
  const double limit = clips_norm ? options_.optimizer.clip_norm : INFINITY;
  return clip_grad_norm(arena_, limit,
                        {.norm_type = options_.optimizer.clip_norm_type, .skip_nonfinite = can_skip});
}

}  // namespace ringtape
