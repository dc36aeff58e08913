#include "train/training_run.h"

#include <algorithm>
#include <utility>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "data/context_dataset.h"
#include "dist/model_parts.h"
#include "dist/optimizer_state.h"
#include "dist/stage_parts.h"
#include "dist/tensor_parallel.h"
#include "dist/unit_values.h"
#include "kernels/gemm.h"
#include "nn/freeze.h"
#include "nn/model_file.h"
#include "train/make.h"

// The parts of a run: the model, divided or whole, its arena, optimizer and loader.
namespace ringtape {
namespace {

/// The number of samples that the loader prefetches: fewer batches if they are large, to save memory.
constexpr std::int64_t kSamplesAhead = 16384;

std::shared_ptr<Stages> stages_of(const DistributionOptions& options, int stage) {
  return std::make_shared<Stages>(
      PipelinePlace{.stage = stage, .stages = options.pipeline_parallel, .chunks = options.pipeline_chunks});
}

/// The pipeline schedule of a data rank that has `samples` samples of a batch.
std::string draw_pipeline(const TrainerOptions& options, std::int64_t samples) {
  const std::int64_t given = options.accumulation.micro_batch;
  const std::int64_t micro_batches = given > 0 ? ceil_div(samples, given) : 1;
  const DistributionOptions& ranks = options.distribution;
  return draw_schedule(ranks.pipeline_schedule, {.stages = ranks.pipeline_parallel,
                                                 .micro_batches = static_cast<int>(micro_batches),
                                                 .chunks = ranks.pipeline_chunks});
}

/// The factory of layers that the ranks of the mesh divide; null if each rank has the whole model and whole
/// sequences.
std::shared_ptr<LayerFactory> layers_over(const Task& task, const Mesh& mesh,
                                          const DistributionOptions& options) {
  const MeshSizes& sizes = mesh.sizes();
  std::shared_ptr<LayerFactory> layers;
  if (sizes.tensor > 1) {
    layers = std::make_shared<TensorParallelFactory>(mesh.along(MeshDimension::tensor),
                                                     options.sequence_parallel, sizes.tensor * sizes.data);
  }
  if (layers == nullptr && (sizes.pipeline > 1 || sizes.context > 1))
    layers = std::make_shared<LayerFactory>();
  if (sizes.context > 1) {
    check(task.context_part != nullptr,
          "--context-parallel: the samples of {} are not sequences of tokens, expected a language model, "
          "a task with context_part",
          task.name);
    layers->set_context(task.context_part(mesh.along(MeshDimension::context)));
  }
  if (sizes.pipeline == 1) return layers;
  layers->set_stages(stages_of(options, mesh.along(MeshDimension::pipeline)->rank()));
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

BytesByCategory smaller(BytesByCategory a, const BytesByCategory& b) {
  for (std::size_t i = 0; i < kMemoryCategories; ++i) a.bytes[i] = std::min(a.bytes[i], b.bytes[i]);
  return a;
}

std::shared_ptr<const Sampler> order_of(const Task& task, std::uint64_t seed) {
  if (!task.order) return std::make_shared<RandomSampler>(task.train->size(), seed);
  std::shared_ptr<const Sampler> order = task.order(seed);
  check(order != nullptr, "trainer: the task's order() returned no sampler");
  return order;
}

}  // namespace

Trainer::Run::Run(Task task, TrainerOptions options, Mesh mesh)
    : task_(std::move(task)),
      options_(std::move(options)),
      mesh_(std::move(mesh)),
      comm_(mesh_.world()),
      layers_(layers_over(task_, mesh_, options_.distribution)),
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
  // A model that existed before the run, such as one loaded from a file, has moved into the arena.
  memory_before_ = smaller(memory_before_, memory_stats(device_).live_by_category);
  check_has_replicas();
  if (divides_layers()) {
    arena_->set_division(
        division_over(mesh_.along(MeshDimension::tensor), options_.distribution.sequence_parallel));
  }
  if (stages() != nullptr) connect_stages();
  optimizer_ = make_optimizer(options_.optimizer, *arena_);
  learning_rate_ = optimizer_->learning_rate();
  if (dtype == DType::f16) scaler_.emplace(*arena_, LossScalerOptions{.world_size = mean_ranks()});
  if (!options_.model.load.empty()) load_model(*model_, options_.model.load, stages());

  sampler_ = std::make_shared<DistributedSampler>(order_, data_rank(), data_ranks());
  const std::int64_t ahead = std::clamp<std::int64_t>(kSamplesAhead / options_.data.batch_size, 1, 16);
  loader_.emplace(
      task_.train, sampler_,
      DataLoaderOptions{.batch_size = batch_of_rank(), .prefetch_batches = ahead, .device = device_});
  schedule_ = make_schedule(options_.schedule, learning_rate_, options_.data.batch_size, length_);
}

std::string Trainer::Run::pipeline_text() const {
  return draw_pipeline(options_, batch_of_rank());
}

std::string Trainer::Run::pipeline_text_of_one_rank(Task task, const TrainerOptions& options) {
  check_batch(options, 1, true);
  const auto layers = std::make_shared<LayerFactory>();
  layers->set_stages(stages_of(options.distribution, 0));
  make_model(checked_task(std::move(task)), layers);
  return draw_pipeline(options, options.data.batch_size);
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

/// With ZeRO 3 each rank keeps its slices of the values, and gathers units on the device; train() does so
/// itself.
void Trainer::Run::shard_values() {
  if (arena_->has_all_values() || arena_->is_gathering()) return;
  arena_->keep_gathering(std::make_shared<UnitValues>(*arena_, mesh_.data_and_context()));
}

std::shared_ptr<Module> Trainer::Run::whole_model() {
  shard_values();
  std::vector<NamedTensor> wholes = gather_weights(*model_, *arena_, *mesh_.data_and_context());
  if (!divides_model() && arena_->has_all_values()) return is_first() ? model_ : nullptr;
  const std::shared_ptr<Communicator>& in_layers = mesh_.along(MeshDimension::tensor);
  if (divides_layers() && mean_rank() == 0) wholes = gather_wholes(*model_, wholes, *in_layers);
  if (stages() != nullptr && mean_rank() == 0 && in_layers->rank() == 0) {
    wholes = gather_stages(*stages(), wholes, *mesh_.along(MeshDimension::pipeline));
  }
  if (!is_first()) return nullptr;
  const std::shared_ptr<Module> whole = make_model(task_, nullptr);
  check(
      whole != model_,
      "trainer: the task's make_model() returned the model of the run again, of which this rank has a part: "
      "expected a new one");
  for (const auto& [name, tensor] : wholes) whole->parameter(name).copy_from(tensor);
  // An arena moves the copy to the device and lets it compute in the run's dtype.
  if (!device_.is_cpu() || arena_->compute_dtype() != DType::f32) {
    ParameterArena(*whole, device_, arena_->compute_dtype());
  }
  return whole;
}

}  // namespace ringtape
