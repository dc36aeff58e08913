#include "dist/pipeline.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "autograd/creation.h"
#include "autograd/tape_observer.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "dist/layout_check.h"
#include "dist/unit_values.h"
#include "nn/module_scope.h"
#include "trace/spans.h"

namespace ringtape {
namespace {

/// The header of a result for the next stage: sizes, their number, the dtype, and the counters so far.
constexpr std::int64_t kHeader = Shape::kMaxDims + 3;

/// Fills `tensor` with the neighbour's values.
void receive(Communicator& from, const Tensor& tensor) {
  const SpanScope span(Track::waiting, "receive");
  from.exchange({}, {{tensor, 1 - from.rank()}}).wait();
}

Work send(Communicator& to, const Tensor& tensor) {
  return to.exchange({{tensor.detach(), 1 - to.rank()}}, {});
}

void wait_for(const std::vector<Work>& sends) {
  for (const Work& sent : sends) sent.wait();
}

/// The communicator of ranks `a` and `b` of `comm`; null on the others. All must call it.
std::shared_ptr<Communicator> pair_of(Communicator& comm, int a, int b) {
  return comm.split(comm.rank() == a || comm.rank() == b ? 0 : -1, comm.rank());
}

}  // namespace

Pipeline::Pipeline(Module& model, const Stages& stages, std::shared_ptr<Communicator> comm,
                   const PipelineOptions& options)
    : model_(model), stages_(stages), comm_(std::move(comm)), options_(options) {
  const int ranks = comm_->size(), rank = comm_->rank();
  check(stages.place().stages == ranks && stages.place().stage == rank && ranks > 1,
        "pipeline: stage {} of {} on rank {} of {}, expected the same, and at least two",
        stages.place().stage, stages.place().stages, rank, ranks);
  const bool is_ring =
      stages.place().chunks > 1;  // the last stage's results go to the first one's next chunk
  for (int from = 0; from < (is_ring ? ranks : ranks - 1); ++from) {
    const int to = (from + 1) % ranks;
    Link link{pair_of(*comm_, from, to), pair_of(*comm_, from, to)};
    if (rank == from) next_ = link;
    if (rank == to) previous_ = link;
  }
  for (const Stages::TiedCopy& copy : stages.copies()) {
    const auto pair = pair_of(*comm_, copy.owner, copy.stage);
    if (pair != nullptr)
      copies_.push_back({copy.name, rank == copy.owner, &model.parameter(copy.name), pair});
  }
}

/// Destroys the links in the order in which they were made: with several chunks they form a ring, in which
/// otherwise each rank would first wait for the next.
Pipeline::~Pipeline() {
  copies_.clear();
  if (comm_->rank() == 0) next_ = {};
  previous_ = {};
  next_ = {};
}

std::size_t Pipeline::part_of(int chunk) const {
  const PipelinePlace& place = stages_.place();
  return static_cast<std::size_t>(chunk) * static_cast<std::size_t>(place.stages) +
         static_cast<std::size_t>(place.stage);
}

/// The task of the previous stage that computes the input of `task`.
StageTask Pipeline::in_previous(StageTask task) const {
  if (stages_.place().stage == 0) --task.chunk;
  return task;
}

/// Called when the input of `forward` has arrived. The previous stage sent it after all earlier tasks of its
/// schedule, so it has received every gradient that those tasks use: waiting for the sends of these gradients
/// cannot block. Waiting for a later send could deadlock.
void Pipeline::free_received_gradients(const StageTask& forward) {
  const auto begin = tasks_of_previous_.begin();
  const auto sender = std::find(begin, tasks_of_previous_.end(), in_previous(forward));
  std::erase_if(sent_gradients_, [&](const SentGradient& each) {
    if (std::find(begin, sender, each.receiver) == sender) return false;
    each.sent.wait();
    return true;
  });
}

Tensor Pipeline::run_chunk(int chunk, const Tensor& x) {
  const SpanScope phase(SpanKind::phase, "forward");
  const MemoryScope category(MemoryCategory::activations);
  const ModuleScope scope(stages_.chunk(chunk));
  const std::size_t part = part_of(chunk);
  return model_.forward_units(x, stages_.begins()[part], stages_.begins()[part + 1]);
}

/// The input of a task's chunk: the model's input, or the result of the part before, to which the backward
/// sends its gradient.
Tensor Pipeline::input_of(const StageTask& task, const ForwardPlan& plan,
                          const std::function<Tensor()>& input) {
  if (part_of(task.chunk) == 0) return input();
  const MemoryScope category(MemoryCategory::activations);
  const ChunkInput& before = plan.chunks[static_cast<std::size_t>(task.chunk)];
  Tensor x = empty(before.shape, before.dtype, comm_->device());
  receive(*previous_.results, x);
  if (!Tape::is_recording()) return x;
  free_received_gradients(task);
  Tape::current().record(
      options_.sequence ? "receive_tokens" : "receive", {}, x, {}, [this, task](BackwardContext& context) {
        const Tensor& gradient = context.grad_output();
        sent_gradients_.push_back(
            {in_previous({.is_backward = true, .micro_batch = task.micro_batch, .chunk = task.chunk}),
             gradient, send(*previous_.gradients, gradient)});
      });
  return x;
}

const Pipeline::ForwardPlan& Pipeline::plan(const Shape& shape, const std::function<Tensor()>& input) {
  const std::string key = to_string(shape) + (model_.is_training() ? " in training" : "");
  const auto found = plans_.find(key);
  return found != plans_.end() ? found->second : plans_.emplace(key, infer_shapes(input)).first->second;
}

/// A forward through all stages with zeros between them, to learn shapes and the numbers of random counters:
/// once for each shape of a micro-batch. Other data ranks may know their shape already, so nothing is
/// gathered.
Pipeline::ForwardPlan Pipeline::infer_shapes(const std::function<Tensor()>& input) {
  const NoGrad no_grad;
  const UnitValues::Zeros no_gathers;
  const Device device = comm_->device();
  ForwardPlan plan;
  std::vector<Work> sends;
  std::uint64_t counters = 0;
  for (int chunk = 0; chunk < stages_.place().chunks; ++chunk) {
    ChunkInput before;
    if (part_of(chunk) > 0) {
      const Tensor received = empty({kHeader}, DType::i64, device);
      receive(*previous_.results, received);
      const std::vector<std::int64_t> header = received.to_vector<std::int64_t>();
      before = {Shape(header.data(), header.data() + header[Shape::kMaxDims]),
                static_cast<DType>(header[Shape::kMaxDims + 1]),
                static_cast<std::uint64_t>(header[Shape::kMaxDims + 2])};
    }
    plan.chunks.push_back(before);
    const std::uint64_t first = default_generator().offset;
    const Tensor y =
        run_chunk(chunk, part_of(chunk) == 0 ? input() : zeros(before.shape, before.dtype, device));
    counters = before.counters + default_generator().offset - first;
    if (is_last_part(chunk)) break;
    std::vector<std::int64_t> header(kHeader, 0);
    std::copy(y.shape().begin(), y.shape().end(), header.begin());
    header[Shape::kMaxDims] = y.dims();
    header[Shape::kMaxDims + 1] = static_cast<std::int64_t>(y.dtype());
    header[Shape::kMaxDims + 2] = static_cast<std::int64_t>(counters);
    sends.push_back(send(*next_.results, copy_to(from_vector(header, {kHeader}), device)));
  }
  const Tensor in_all = copy_to(from_vector(std::vector{static_cast<std::int64_t>(counters)}, {1}), device);
  comm_->broadcast(in_all, comm_->size() - 1).wait();
  plan.counters = static_cast<std::uint64_t>(in_all.to_vector<std::int64_t>()[0]);
  wait_for(sends);
  return plan;
}

void Pipeline::forward(InFlight& flight, const StageTask& task, const ForwardPlan& plan,
                       const Callbacks& callbacks) {
  const OnTape on_tape(flight.tape);
  std::optional<LayoutCheck> layouts;
  if (options_.check_layouts || options_.context) layouts.emplace(nullptr, options_.context);
  const TapeObserverScope observed(layouts ? &*layouts : nullptr);
  const auto micro_batch = static_cast<std::size_t>(task.micro_batch);
  Tensor y = run_chunk(task.chunk, input_of(task, plan, [&] { return callbacks.input(micro_batch); }));
  const bool is_last = is_last_part(task.chunk);
  flight.result = is_last ? callbacks.loss(std::move(y), micro_batch) : std::move(y);
  if (!is_last) flight.sent = send(*next_.results, flight.result);
}

void Pipeline::backward(InFlight& flight, const StageTask& task, const Callbacks& callbacks) {
  const OnTape on_tape(flight.tape);
  if (is_last_part(task.chunk)) {
    const SpanScope phase(SpanKind::phase, "backward");
    callbacks.backward(flight.result);
    return;
  }
  const MemoryScope category(MemoryCategory::activation_gradients);
  Tensor gradient = empty(flight.result.shape(), flight.result.dtype(), comm_->device());
  receive(*next_.gradients, gradient);
  flight.sent.wait();  // the next stage has computed with it
  const std::shared_ptr<AutogradMeta> root = std::exchange(flight.result, {}).autograd;
  const SpanScope phase(SpanKind::phase, "backward");
  flight.tape.run_backward(root, std::move(gradient));
}

/// The tasks of all stages. Throws Error for an order that lacks tasks, or in which a stage would wait for
/// ever.
std::vector<std::vector<StageTask>> Pipeline::tasks_of(int micro_batches) const {
  const PipelinePlace& place = stages_.place();
  const PipelineShape shape{place.stages, micro_batches, place.chunks};
  if (!options_.order) return pipeline_schedule(options_.schedule, shape);
  std::vector<std::vector<StageTask>> of_all;
  for (int stage = 0; stage < place.stages; ++stage) {
    const std::vector<StageTask> all = stage_schedule(options_.schedule, shape, stage);
    const std::vector<StageTask>& order = of_all.emplace_back(options_.order(shape, stage));
    check(
        std::is_permutation(order.begin(), order.end(), all.begin(), all.end()),
        "pipeline: the order of stage {} has {} tasks, expected the forward and backward of {} micro-batches "
        "through {} chunks, each once",
        stage, order.size(), micro_batches, place.chunks);
  }
  simulate(of_all, 1, 1);
  return of_all;
}

void Pipeline::forward_backward(const std::vector<Shape>& shapes, const Callbacks& callbacks) {
  if (shapes.empty()) return;
  const std::vector<std::vector<StageTask>> tasks = tasks_of(static_cast<int>(shapes.size()));
  const auto stage = static_cast<std::size_t>(stages_.place().stage);
  tasks_of_previous_ = tasks[(stage > 0 ? stage : tasks.size()) - 1];
  std::vector<const ForwardPlan*> plans;
  std::vector<std::uint64_t> first_counters = {
      default_generator().offset};  // of each micro-batch, and of what follows
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    plans.push_back(&plan(shapes[i], [&] { return callbacks.input(i); }));
    first_counters.push_back(first_counters.back() + plans.back()->counters);
  }
  std::map<std::pair<int, int>, InFlight> in_flight;  // by micro-batch and chunk
  for (const StageTask& task : tasks[stage]) {
    const std::pair key(task.micro_batch, task.chunk);
    if (task.is_backward) {
      const auto run = [&] { backward(in_flight.at(key), task, callbacks); };
      callbacks.around_backward ? callbacks.around_backward(static_cast<std::size_t>(task.micro_batch), run)
                                : run();
      in_flight.erase(key);
    } else {
      const ForwardPlan& plan = *plans[static_cast<std::size_t>(task.micro_batch)];
      default_generator().offset = first_counters[static_cast<std::size_t>(task.micro_batch)] +
                                   plan.chunks[static_cast<std::size_t>(task.chunk)].counters;
      forward(in_flight[key], task, plan, callbacks);
    }
  }
  default_generator().offset = first_counters.back();
  for (const SentGradient& each : std::exchange(sent_gradients_, {})) each.sent.wait();
}

std::vector<std::shared_ptr<Communicator>> Pipeline::communicators() const {
  std::vector<std::shared_ptr<Communicator>> all = {previous_.results, previous_.gradients, next_.results,
                                                    next_.gradients};
  for (const TiedPair& copy : copies_) all.push_back(copy.pair);
  return all;
}

Tensor Pipeline::forward(const Tensor& input) {
  const NoGrad no_grad;
  const auto given = [&] { return input; };
  const ForwardPlan& known = plan(input.shape(), given);
  Tensor y;
  std::vector<Work> sends;
  for (int chunk = 0; chunk < stages_.place().chunks; ++chunk) {
    y = run_chunk(chunk, input_of({.chunk = chunk}, known, given));
    if (!is_last_part(chunk)) sends.push_back(send(*next_.results, y));
  }
  wait_for(sends);
  return is_last() ? y : Tensor();
}

void Pipeline::sum_tied_gradients(const ParameterArena* arena) {
  for (const TiedPair& copy : copies_) {
    const Tensor own = arena == nullptr ? copy.parameter->grad() : arena->gradient_of_single(*copy.parameter);
    if (own.defined()) copy.pair->all_reduce(own, ReduceOp::sum).wait();
  }
}

ModelStages Pipeline::of_arena() const {
  ModelStages others{.sum = all_reduce_over(comm_, ReduceOp::sum),
                     .max = all_reduce_over(comm_, ReduceOp::max),
                     .copies = {}};
  for (const TiedPair& copy : copies_) {
    others.copies.push_back(
        {.name = copy.name, .is_counted = copy.is_owner, .sum = all_reduce_over(copy.pair, ReduceOp::sum)});
  }
  return others;
}

}  // namespace ringtape
