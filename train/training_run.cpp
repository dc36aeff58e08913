#include "train/training_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "core/random.h"
#include "data/context_dataset.h"
#include "dist/mesh_traffic.h"
#include "dist/model_parts.h"
#include "dist/optimizer_state.h"
#include "dist/ring_attention.h"
#include "dist/stage_parts.h"
#include "dist/tensor_parallel.h"
#include "dist/verify_replicas.h"
#include "kernels/gemm.h"
#include "kernels/limits.h"
#include "nn/compute_dtype.h"
#include "nn/freeze.h"
#include "nn/model_file.h"
#include "nn/parameter_shard.h"
#include "profile/machine.h"
#include "trace/spans.h"
#include "train/make.h"
#include "train/option_list.h"
#include "train/output_files.h"

namespace ringtape {
namespace {

/// Samples that the loader prefetches: fewer batches if they are large, to save memory.
constexpr std::int64_t kSamplesAhead = 16384;

Task complete(Task task) {
  check((task.make_model || task.make_model_with) && task.loss && task.train && task.test,
        "trainer: the task needs make_model, loss, train and test, found one of them empty");
  return task;
}

/// The layers of a model that the ranks of the mesh divide; null for ranks that each have all of it.
std::shared_ptr<LayerFactory> layers_over(const Mesh& mesh, const DistributionOptions& options) {
  const MeshSizes& sizes = mesh.sizes();
  std::shared_ptr<LayerFactory> layers;
  if (sizes.tensor > 1) {
    layers =
        std::make_shared<TensorParallelFactory>(mesh.along(MeshDimension::tensor), options.sequence_parallel);
  }
  if (layers == nullptr && (sizes.pipeline > 1 || sizes.context > 1))
    layers = std::make_shared<LayerFactory>();
  if (sizes.context > 1) layers->set_context(context_part_over(mesh.along(MeshDimension::context)));
  if (sizes.pipeline == 1) return layers;
  layers->set_stages(
      std::make_shared<Stages>(PipelinePlace{.stage = mesh.along(MeshDimension::pipeline)->rank(),
                                             .stages = sizes.pipeline,
                                             .chunks = options.pipeline_chunks}));
  return layers;
}

std::shared_ptr<Module> make_model(const Task& task, const std::shared_ptr<LayerFactory>& layers) {
  check(layers == nullptr || task.make_model_with != nullptr,
        "--tensor-parallel, --context-parallel or --pipeline-parallel: the model of {} cannot be divided, "
        "expected a task with make_model_with",
        task.name);
  std::shared_ptr<Module> model;
  if (task.make_model_with) {
    model = task.make_model_with(layers != nullptr ? layers : std::make_shared<LayerFactory>());
  } else {
    model = task.make_model();
  }
  check(model != nullptr, "trainer: the task's make_model() returned no model");
  check(layers == nullptr || layers->stages() == nullptr || layers->stages()->are_divided(),
        "--pipeline-parallel: the model of {} is no chain of units, expected a GPT or an MLP", task.name);
  return model;
}

std::shared_ptr<const Sampler> order_of(const Task& task, std::uint64_t seed) {
  if (!task.order) return std::make_shared<RandomSampler>(task.train->size(), seed);
  std::shared_ptr<const Sampler> order = task.order(seed);
  check(order != nullptr, "trainer: the task's order() returned no sampler");
  return order;
}

/// The random numbers of a step, such as those of dropout: a function of seed, rank among those that divide
/// the batch, and step, so that a resumed run has the same. A step may use 2^40 counters.
Generator random_of_step(std::uint64_t seed, int rank, std::int64_t step) {
  Generator generator(seed + static_cast<std::uint64_t>(rank) * 0x9E3779B97F4A7C15u);
  generator.offset = static_cast<std::uint64_t>(step + 1) << 40;
  return generator;
}

}  // namespace

Trainer::Run::Run(Task task, TrainerOptions options, Mesh mesh)
    : task_(complete(std::move(task))),
      options_(std::move(options)),
      mesh_(std::move(mesh)),
      comm_(mesh_.world()),
      layers_(layers_over(mesh_, options_.distribution)),
      device_(comm_->device()),
      console_(comm_->rank() == 0 && !options_.observation.quiet),
      memory_before_(memory_stats(device_).live_by_category),
      order_(order_of(task_, options_.data.seed)),
      length_(run_length(options_.data, order_->size())) {
  check_before_model();
  options_.observation.print_tape = options_.observation.print_tape && is_first();
  if (options_.gemm) set_gemm_backend(*options_.gemm, device_);
  if (options_.precision.tf32) set_tf32(true, device_);

  if (mesh_.sizes().context > 1) {
    for (std::shared_ptr<const Dataset>* const samples : {&task_.train, &task_.test}) {
      *samples = std::make_shared<ContextDataset>(*samples, *layers_->context());
    }
  }
  manual_seed(options_.data.seed);
  model_ = make_model(task_, layers_);
  if (divides_model() && task_.loss_with) {
    task_.loss = [this](Tensor prediction, const Tensor& targets, double divisor) {
      return task_.loss_with(*layers_, std::move(prediction), targets, divisor);
    };
  }
  if (!options_.model.freeze.empty()) freeze(*model_, options_.model.freeze);
  if (!options_.model.train_only.empty()) train_only(*model_, options_.model.train_only);
  const DType dtype = compute_dtype(options_.precision, device_);
  ArenaSharding sharding = make_sharding(options_.distribution, mean_rank(), mean_ranks());
  sharding.stages = stages();
  arena_.emplace(*model_, device_, dtype, sharding);
  if (divides_layers()) {
    arena_->set_division(
        division_over(mesh_.along(MeshDimension::tensor), options_.distribution.sequence_parallel));
  }
  if (stages() != nullptr) connect_stages();
  optimizer_ = make_optimizer(options_.optimizer, *arena_);
  learning_rate_ = optimizer_->learning_rate();
  if (dtype == DType::f16) scaler_.emplace(*arena_);
  if (!options_.model.load.empty()) load_model(*model_, options_.model.load, stages());

  sampler_ = std::make_shared<DistributedSampler>(order_, data_rank(), data_ranks());
  const std::int64_t ahead = std::clamp<std::int64_t>(kSamplesAhead / options_.data.batch_size, 1, 16);
  loader_.emplace(
      task_.train, sampler_,
      DataLoaderOptions{.batch_size = batch_of_rank(), .prefetch_batches = ahead, .device = device_});
  schedule_ = make_schedule(options_.schedule, learning_rate_, options_.data.batch_size, length_);
}

void Trainer::Run::connect_stages() {
  const DistributionOptions& options = options_.distribution;
  const std::shared_ptr<Communicator>& line = mesh_.along(MeshDimension::pipeline);
  pipeline_ = std::make_unique<Pipeline>(*model_, *stages(), line,
                                         PipelineOptions{.schedule = options.pipeline_schedule,
                                                         .sequence = options.sequence_parallel,
                                                         .check_layouts = divides_layers(),
                                                         .context = mesh_.sizes().context > 1});
  arena_->set_stages(pipeline_->of_arena());
}

/// Checks before the model, which may be large, is made.
void Trainer::Run::check_before_model() const {
  const std::int64_t batch = options_.data.batch_size, world_size = data_ranks();
  const std::int64_t below = batch - batch % world_size;
  check(below == batch, "--batch-size {}: expected a multiple of the {}{}, such as {}", batch,
        counted(world_size, "rank"), divides_model() ? " that divide it" : "",
        below > 0 ? below : world_size);
  check(options_.accumulation.micro_batch <= batch_of_rank(),
        "--micro-batch {} is larger than the {} samples of a batch that {} computes: expected at most that "
        "number",
        options_.accumulation.micro_batch, batch_of_rank(), world_size > 1 ? "one rank" : "the run");
  const DistributionOptions& ranks = options_.distribution;
  check(ranks.pipeline_schedule != PipelineScheduleKind::interleaved || ranks.pipeline_chunks > 1,
        "--pipeline-schedule interleaved: expected --pipeline-chunks of at least 2, the nearest is 2");
  check(!options_.graph || device_.is_cuda(), "--graph: {} has no CUDA graphs, expected a GPU",
        to_string(device_));
  check(!options_.graph || comm_->size() == 1, "--graph: found {} ranks, expected one", comm_->size());
  warmup_steps(options_.schedule, batch, length_);
  RecordedSteps::check_options(options_.observation, device_, length_.steps);
  check_output_files(options_, task_.input_files, is_first());
  if (ranks.zero == 3 && mean_ranks() > 1) check_sharded_parameters();
  if (ranks.zero == 2 && mean_ranks() > 1 && ranks.pipeline_chunks > 1) check_last_update();
  check_memory();
}

/// Checks what ZeRO stage 3 cannot do, as no rank has all parameters and all ranks run the same forwards.
void Trainer::Run::check_sharded_parameters() const {
  check(!options_.distribution.check_replicas,
        "--check-replicas: with --zero 3 ranks have no equal parameters to compare");
  check(options_.observation.record_values.empty(),
        "--record-values: with --zero 3 no rank has the values between two updates");
  check_last_update();
  check_equal_forwards(task_.test->size(), "test samples", options_.data.eval_batch_size,
                       "--eval-batch-size");
}

/// Checks that all ranks cut the short last update of an epoch into as many micro-batches.
void Trainer::Run::check_last_update() const {
  const std::int64_t batch = options_.data.batch_size, micro_batch = options_.accumulation.micro_batch;
  if (length_.steps <= length_.samples / batch) return;
  check_equal_forwards(length_.samples % batch, "samples of an epoch's last update",
                       micro_batch > 0 ? micro_batch : batch,
                       micro_batch > 0 ? "--micro-batch" : "--batch-size");
}

void Trainer::Run::check_equal_forwards(std::int64_t samples, const char* what, std::int64_t at_once,
                                        const char* flag) const {
  const std::int64_t ranks = data_ranks();
  const auto forwards = [&](std::int64_t own) { return (own + at_once - 1) / at_once; };
  const std::int64_t fewest = forwards(samples / ranks), most = forwards((samples + ranks - 1) / ranks);
  check(fewest == most,
        "--zero {}: expected as many forwards on every rank, but of the {} {} some of the {} ranks run {} "
        "and others {}: change {}",
        options_.distribution.zero, samples, what, ranks, most, fewest, flag);
}

/// Throws Error for a model that does not fit, and announces one that takes long to make.
void Trainer::Run::check_memory() const {
  constexpr std::size_t kLarge = std::size_t{2} << 30;
  BytesByCategory bytes = estimate_memory(compute_dtype(options_.precision, device_));
  const auto world_size = static_cast<std::size_t>(mean_ranks());
  for (const MemoryCategory category :
       {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer_state}) {
    bytes[category] /= static_cast<std::size_t>(mesh_.sizes().tensor);  // about: of some all ranks have all
  }
  bytes[MemoryCategory::activations] /= static_cast<std::size_t>(mesh_.sizes().context);
  if (options_.distribution.zero >= 1) bytes[MemoryCategory::optimizer_state] /= world_size;
  if (options_.distribution.zero >= 2) bytes[MemoryCategory::gradients] /= world_size;
  // What will be frozen is not known before there is a model.
  const bool freezes = !options_.model.freeze.empty() || !options_.model.train_only.empty();
  if (freezes) bytes[MemoryCategory::gradients] = bytes[MemoryCategory::optimizer_state] = 0;
  const std::size_t needed = bytes.total();
  const std::size_t there = memory_capacity(device_);
  const auto text = [](std::size_t count) { return bytes_text(static_cast<double>(count)); };
  if (needed > there) {
    throw OutOfMemoryError(fmt::format(
        "out of memory on {}: model {} would take about {} for parameters, gradients, optimizer and "
        "activations, and there are {}",
        to_string(device_), task_.model_name, text(needed), text(there)));
  }
  if (needed < kLarge) return;
  console_.print("making model {}, which needs about {} of {}\n", task_.model_name, text(needed),
                 text(there));
  std::fflush(stdout);
}

std::string Trainer::Run::schedule_text() const {
  return ringtape::schedule_text(options_.schedule, schedule_, options_.data.batch_size, length_);
}

/// "model 784-256-10 (203530 parameters), batch 64, adam at 0.001"; of fewer that are trained, their number.
std::string Trainer::Run::describe_training() const {
  const std::int64_t micro_batch = options_.accumulation.micro_batch;
  const std::int64_t all = model_elements();
  // Of a model that ranks divide nothing is frozen.
  const std::int64_t trained = divides_model() ? all : arena_->trained_elements();
  return fmt::format("model {}{}({} parameters{}), batch {}{}, {} at {}", task_.model_name,
                     task_.model_name.empty() ? "" : " ", all,
                     trained < all ? fmt::format(", {} of them trained", trained) : std::string(),
                     options_.data.batch_size,
                     micro_batch > 0 ? fmt::format(" in micro-batches of {}", micro_batch) : std::string(),
                     options_.optimizer.kind->name, learning_rate_);
}

void Trainer::Run::describe_model() const {
  console_.print("{}: {} training and {} test samples\n", task_.name, length_.samples, task_.test->size());
  console_.print("{}\n", describe_training());
}

void Trainer::Run::describe_device() const {
  const std::string gemm =
      gemm_backend(device_) == GemmBackend::own ? "own kernel" : vendor_gemm_name(device_);
  console_.print("device {} ({}), {}, GEMM by {}\n", to_string(device_), describe(device_),
                 describe_compute_dtype(arena_->compute_dtype(), device_), gemm);
  if (comm_->size() > 1) {
    console_.print("{} connected by {}, {} of a batch each{}\n", counted(comm_->size(), "rank"),
                   comm_->backend(), counted(batch_of_rank(), "sample"),
                   divides_model() ? fmt::format(", {} for a model", comm_->size() / data_ranks()) : "");
  }
}

EvaluationResult Trainer::Run::evaluate_weights() {
  return ringtape::evaluate(task_, *model_, arena_->compute_dtype(), options_.data.eval_batch_size, mesh_,
                            pipeline_.get());
}

std::int64_t Trainer::Run::model_elements() const {
  if (stages() == nullptr) return whole_elements(*model_);
  std::int64_t elements = 0;
  for (const Stages::Parameter& parameter : stages()->parameters()) elements += parameter.shape.elements();
  return elements;
}

EvaluationResult Trainer::Run::evaluate() {
  const bool writes =
      is_first() && !has_trained_;  // an evaluation after training keeps the metrics of the training
  RunLog log(console_, writes ? options_.observation.metrics : "", options_.data.epochs, device_,
             counts_correct());
  describe_model();
  describe_device();
  const EvaluationResult result = evaluate_weights();
  log.report(result, 0, 0);
  return result;
}

TrainingResult Trainer::Run::train() {
  check(!has_trained_, "trainer: train() was called twice, expected one call: make another Trainer");
  has_trained_ = true;
  LossScaler* const scaler = scaler_ ? &*scaler_ : nullptr;
  TrainingState state(*model_, *arena_, *optimizer_, scaler, mesh_, stages());
  Checkpointing checkpoints(options_.checkpoint, checkpoint_settings(), is_first());
  std::optional<Checkpoint> resumed;
  const TrainingPosition begin =
      options_.checkpoint.resume ? state.resume(checkpoints, resumed) : state.broadcast_from_first({});
  check(begin.step <= length_.steps, "--resume: {} is at step {}, expected at most the {} of this run",
        options_.checkpoint.folder, begin.step, counted(length_.steps, "step"));
  const ObservationOptions& observation = options_.observation;
  Training training{
      .at = begin,
      .update = Update(task_, options_, *model_, *arena_, *optimizer_, scaler,
                       !observation.metrics.empty() || !observation.report.empty(), mesh_, pipeline_.get()),
      .recorded = RecordedSteps(observation, *comm_, begin.step, length_.steps),
      .log = RunLog(console_, is_first() ? observation.metrics : "", options_.data.epochs, device_,
                    counts_correct(), checkpoints.are_kept() ? std::optional(begin.step) : std::nullopt),
      .values = ValueRecord(is_first() ? observation.record_values : ""),
      // The first update makes one-time allocations, such as scratch memory.
      .reported_step = observation.memory_report ? std::min(begin.step + 1, length_.steps - 1) : -1,
  };
  if (training.values.is_open()) training.update.observe(&training.values);
  if (resumed) training.log.restore(*resumed);
  // Nothing is printed before all checks.
  describe_model();
  describe_device();
  if (resumed) {
    console_.print("resumed after step {}, {} into epoch {}\n", begin.step, counted(begin.samples, "sample"),
                   begin.epoch + 1);
  }
  training.log.begin(begin.step, length_.steps, scaler, throughput());
  TrainingResult ended;
  try {
    const EvaluationResult result = run_steps(training, state, checkpoints);
    const std::int64_t steps = training.at.step;
    check(std::isfinite(result.loss),
          "training diverged: the test loss is not finite after {}; a smaller --lr or --clip-norm, or a "
          "longer --warmup, may help",
          counted(steps, "step"));
    const auto skipped = static_cast<std::int64_t>(optimizer_->skipped_updates().item());
    check(steps == 0 || skipped < steps,
          "no update had an effect: the gradients of {} in {} were not finite, and the updates skipped",
          skipped, counted(steps, "step"));
    training.log.report(result, steps, skipped);
    ended = {result, steps, skipped, training.log.seconds()};
  } catch (const std::exception& error) {
    write_report_of_failure(training, error.what());
    throw;
  }
  write_outputs(training, ended.test);
  return ended;
}

/// Runs the remaining steps; returns the result of the last evaluation.
EvaluationResult Trainer::Run::run_steps(Training& training, TrainingState& state,
                                         Checkpointing& checkpoints) {
  auto& [at, update, recorded, log, values, reported_step] = training;
  std::optional<EvaluationResult> last;
  for (; at.step < length_.steps; ++at.epoch, at.samples = 0) {
    loader_->start_epoch(at.epoch, sampler_->own_of(at.samples));
    while (at.step < length_.steps && at.samples < length_.samples) {
      run_step(training);
      if (checkpoints.is_due(at.step, length_.steps)) {
        const SpanScope phase(SpanKind::phase, "checkpoint");
        log.flush();
        checkpoints.save(at, state.gather(), log.history());
      }
    }
    // An evaluation follows.
    if (at.step < length_.steps) {
      recorded.pause();
    } else {
      recorded.stop();
    }
    log.flush();
    last = evaluate_weights();
    log.end_epoch(at.epoch + 1, *last);
  }
  return last ? *last : evaluate_weights();
}

/// One update of the weights.
void Trainer::Run::run_step(Training& training) {
  TrainingPosition& at = training.at;
  const double rate = schedule_(at.step);
  Step step{.number = at.step + 1, .epoch = at.epoch + 1, .learning_rate = rate, .loss = {}, .grad_norm = {}};
  for (const Hook& hook : before_step) hook(step);
  training.recorded.begin_step(step.number);
  std::optional<SpanScope> span(std::in_place, SpanKind::step, fmt::format("step {}", step.number), "");
  const std::optional<Batch> batch = next_batch();
  const std::int64_t samples = std::min(options_.data.batch_size, length_.samples - at.samples);
  optimizer_->set_learning_rate(rate);
  if (!options_.observation.record_values.empty()) {
    arena_->gather_values();
    if (training.values.is_open()) training.values.begin_step(step.number, *model_);
  }
  const bool is_reported = at.step == training.reported_step;
  if (is_reported) memory_.emplace(device_);
  const MeshTraffic traffic(mesh_, pipeline_ != nullptr ? pipeline_->communicators()
                                                        : std::vector<std::shared_ptr<Communicator>>());
  default_generator() = random_of_step(options_.data.seed, data_rank(), at.step);
  const UpdateResult result = training.update(batch, samples);
  if (is_reported) {
    memory_->stop();
    traffic_ = traffic.table();
  }
  const double bytes_sent = traffic.bytes_sent();
  ++at.step;
  at.samples += samples;
  if (options_.distribution.check_replicas) {
    arena_->gather_values();
    verify_replicas(*model_, mesh_, fmt::format("after step {}", at.step), pipeline_.get());
  }
  training.log.add(
      {.step = at.step, .epoch = step.epoch, .rate = rate, .samples = samples, .bytes_sent = bytes_sent},
      result);
  span.reset();
  training.recorded.end_step();
  step.loss = result.loss;
  step.grad_norm = result.grad_norm;
  for (const Hook& hook : after_step) hook(step);
  make_texts(training);
}

void Trainer::Run::make_texts(Training& training) {
  const ObservationOptions& see = options_.observation;
  if (!is_first() || (see.quiet && see.report.empty())) return;
  for (const TextHook& hook : texts) {
    if (training.at.step % hook.every != 0) continue;
    training.log.flush();
    training.recorded.pause();
    model_->eval();
    training.log.add({training.at.step, hook.title, hook.make()});
    model_->train();
  }
}

/// Measures the device where the FLOPs of a sample are known and somebody sees the result.
Throughput Trainer::Run::throughput() const {
  Throughput result{task_.unit, task_.units_per_sample, task_.flops_per_sample};
  const ObservationOptions& see = options_.observation;
  const bool is_seen = !see.quiet || !see.report.empty() || !see.metrics.empty();
  if (is_first() && is_seen && task_.flops_per_sample > 0) {
    result.most_flops = most_flops(device_, arena_->compute_dtype()) * comm_->size();
  }
  return result;
}

/// This rank's samples of the next update; none if only other ranks have samples left.
std::optional<Batch> Trainer::Run::next_batch() {
  const SpanScope phase(SpanKind::phase, "data");
  const SpanScope span(SpanKind::operation, "load batch");
  return loader_->next();
}

std::shared_ptr<Module> Trainer::Run::whole_model() {
  std::vector<NamedTensor> wholes = gather_weights(*model_, *arena_, *mesh_.of_mean());
  if (!divides_model() && arena_->has_all_values()) return is_first() ? model_ : nullptr;
  const std::shared_ptr<Communicator>& in_layers = mesh_.along(MeshDimension::tensor);
  if (divides_layers() && mean_rank() == 0) wholes = gather_wholes(*model_, wholes, *in_layers);
  if (stages() != nullptr && mean_rank() == 0 && in_layers->rank() == 0) {
    wholes = gather_stages(*stages(), wholes, *mesh_.along(MeshDimension::pipeline));
  }
  if (!is_first()) return nullptr;
  const std::shared_ptr<Module> whole = make_model(task_, nullptr);
  for (const auto& [name, tensor] : wholes) whole->parameter(name).copy_from(tensor);
  if (!device_.is_cpu()) ParameterArena(*whole, device_, arena_->compute_dtype());
  return whole;
}

/// The settings that a resumed run must share with its checkpoint.
TrainingSettings Trainer::Run::checkpoint_settings() const {
  if (options_.checkpoint.folder.empty()) return {};
  TrainingSettings settings;
  TrainerOptions options = options_;
  OptimizerOptions& o = options.optimizer;
  for (const auto& [value, otherwise] : {std::pair(&o.weight_decay, o.kind->defaults.weight_decay),
                                         {&o.momentum, o.kind->defaults.momentum},
                                         {&o.beta1, o.kind->defaults.beta1},
                                         {&o.beta2, o.kind->defaults.beta2}}) {
    if (*value == otherwise) value->reset();  // as if it had not been set
  }
  for (const auto& [name, value] : values_of(options, {Effect::result})) settings["--" + name] = value;
  for (const auto& [name, value] : task_.settings) settings["--" + name] = value;
  settings["--lr"] = fmt::format("{}", learning_rate_);
  settings["--dtype"] = name_of(arena_->compute_dtype());  // auto may select another dtype on another machine
  if (arena_->trained_elements() < arena_->parameter_elements()) {
    settings["frozen weights"] = fmt::format("CRC-32 {:08x}", checksum_of_frozen(*model_));
  }
  settings["data"] =
      fmt::format("{} samples with the CRC-32 {:08x}", task_.train->size(), task_.train->checksum());
  if (depends_on_length(options_.schedule)) {
    settings[Checkpointing::kStepsInAll] = fmt::format("{}", length_.steps);
  }
  if (options_.optimizer.clip_each_micro_batch) {
    settings["--micro-batch"] = fmt::format("{}", options_.accumulation.micro_batch);
    settings["ranks"] = fmt::format("{}", data_ranks());
  }
  return settings;
}

}  // namespace ringtape
