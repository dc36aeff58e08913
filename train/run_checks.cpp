#include <cstdio>

#include "core/ceil_div.h"
#include "core/divisors.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "data/context_dataset.h"
#include "dist/verify_same.h"
#include "io/checksum.h"
#include "train/make.h"
#include "train/option_types.h"
#include "train/output_files.h"
#include "train/training_run.h"

// The checks before a run makes its model, and those that need the model.
namespace ringtape {

/// Checks the division of a batch over data ranks, micro-batches and stages.
void Trainer::Run::check_batch(const TrainerOptions& options, int data_ranks, bool divides_model) {
  const std::int64_t batch = options.data.batch_size, micro_batch = options.accumulation.micro_batch;
  check(batch % data_ranks == 0, "--batch-size {}: expected a multiple of the {}{}, the nearest is {}", batch,
        counted(data_ranks, "rank"), divides_model ? " that divide it" : "",
        nearest_multiple(batch, data_ranks));
  check(micro_batch <= batch / data_ranks,
        "--micro-batch {} is larger than the {} samples of a batch that {} computes: expected at most that "
        "number",
        micro_batch, batch / data_ranks, data_ranks > 1 ? "one rank" : "the run");
  const DistributionOptions& ranks = options.distribution;
  check(ranks.pipeline_schedule != PipelineScheduleKind::interleaved || ranks.pipeline_chunks > 1,
        "--pipeline-schedule interleaved: expected --pipeline-chunks of at least 2, the nearest is 2");
}

/// Checks that all ranks read the samples in the same order, of which each then takes its part.
void Trainer::Run::check_order() const {
  if (comm_->size() == 1) return;
  const std::vector<std::int64_t> order = order_->order(0);
  verify_same(*comm_, "the ranks' training data", "",
              fmt::format("an order of {} in the first epoch with the CRC-32 {:08x}\n",
                          counted(std::ssize(order), "sample"),
                          crc32(0, order.data(), order.size() * sizeof(std::int64_t))));
}

/// The checks before the model, which may be large, is made.
void Trainer::Run::check_before_model() const {
  check_order();
  check_batch(options_, data_ranks(), divides_model());
  check(length_.samples >= data_ranks(), "{}: {} in an epoch, expected at least one for each of the {}",
        task_.name, counted(length_.samples, "training sample"), counted(data_ranks(), "rank"));
  const DistributionOptions& ranks = options_.distribution;
  if (ranks.sequence_parallel) check_sequences("--sequence-parallel", *task_.train);
  check(
      ranks.compress != DType::f16 || ranks.tensor_parallel == 1 || ranks.sequence_parallel,
      "--compress f16 cannot be used with --tensor-parallel without --sequence-parallel: each rank scales a "
      "bucket by its own largest gradient, so gradients that all have would be rounded differently; expected "
      "--compress bf16");
  check(!options_.graph || device_.is_cuda(), "--graph: {} has no CUDA graphs, expected a GPU",
        to_string(device_));
  check(!options_.graph || comm_->size() == 1, "--graph: found {} ranks, expected one", comm_->size());
  ScheduleOptions schedule = options_.schedule;
  const bool warms_up = schedule.kind != ScheduleKind::one_cycle && schedule.warmup != 0;
  check(warms_up || schedule.warmup_shape == ScheduleOptions().warmup_shape,
        "--warmup-shape {} has no effect: the run has no warm-up",
        option_value(schedule.warmup_shape).write());
  RecordedSteps::check_options(options_.observation, device_, length_.steps);
  check_output_files(options_, task_.input_files, is_first());
  if (task_.check_outputs && is_first()) task_.check_outputs();
  if (ranks.zero == 3 && mean_ranks() > 1) check_sharded_parameters();
  if (ranks.zero == 2 && mean_ranks() > 1 && ranks.pipeline_chunks > 1) check_last_update();
  check_memory();
}

/// Checks the limits of ZeRO stage 3, in which no rank has all parameters and all ranks must run the same
/// forwards.
void Trainer::Run::check_sharded_parameters() const {
  check(options_.observation.record_values.empty(),
        "--record-values: with --zero 3 no rank has the values between two updates");
  check_last_update();
  check_equal_forwards(task_.test->size(), "test samples", options_.data.eval_batch_size,
                       "--eval-batch-size");
}

/// Checks that --check-replicas has something to compare. Needs the model, which determines the tied weights.
void Trainer::Run::check_has_replicas() const {
  if (!options_.distribution.check_replicas || arena_->has_all_values()) return;
  check(divides_layers() || (stages() != nullptr && !stages()->copies().empty()),
        "--check-replicas: with --zero 3 no two of these ranks have the same values, expected "
        "--tensor-parallel, or --pipeline-parallel of a model with tied weights");
}

/// Checks that all ranks divide the short last update of an epoch into the same number of micro-batches.
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
  const auto forwards = [&](std::int64_t own) { return ceil_div(own, at_once); };
  check(samples == 0 || samples >= ranks,
        "--zero {}: expected the same number of forwards on every rank, but the {} {} are fewer than the {} "
        "ranks",
        options_.distribution.zero, samples, what, ranks);
  const std::int64_t fewest = forwards(samples / ranks), most = forwards(ceil_div(samples, ranks));
  check(fewest == most,
        "--zero {}: expected the same number of forwards on every rank, but of the {} {} some of the {} "
        "ranks run {} and others {}: change {}",
        options_.distribution.zero, samples, what, ranks, most, fewest, flag);
}

/// Throws OutOfMemoryError for a model that does not fit, and announces a large one, which takes long to
/// make.
void Trainer::Run::check_memory() const {
  constexpr std::size_t kLarge = std::size_t{2} << 30;
  BytesByCategory bytes = estimate_memory(compute_dtype(options_.precision, device_), GptPart{});
  const auto world_size = static_cast<std::size_t>(mean_ranks());
  const auto parts = static_cast<std::size_t>(mesh_.sizes().tensor * mesh_.sizes().pipeline);
  for (const MemoryCategory category :
       {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer_state}) {
    bytes[category] /= parts;  // approximate: some parameters are on all ranks, and stages are not equal
  }
  // A lower bound: no model that fits may be refused.
  bytes[MemoryCategory::activations] /= parts * static_cast<std::size_t>(mesh_.sizes().context);
  if (options_.distribution.zero >= 1) bytes[MemoryCategory::optimizer_state] /= world_size;
  if (options_.distribution.zero >= 2) bytes[MemoryCategory::gradients] /= world_size;
  // On a CPU every rank makes its whole model in the same memory, and shards it afterwards.
  if (options_.distribution.zero == 3 && device_.is_cuda()) bytes[MemoryCategory::parameters] /= world_size;
  // Which parameters are frozen is not known before the model is made.
  const bool freezes = !options_.model.freeze.empty() || !options_.model.train_only.empty();
  if (freezes) bytes[MemoryCategory::gradients] = bytes[MemoryCategory::optimizer_state] = 0;
  const std::size_t needed = bytes.total();
  const std::size_t there = memory_capacity(device_);
  const std::string model = task_.model_name.empty() ? "the model" : "model " + task_.model_name;
  const auto text = [](std::size_t count) { return bytes_text(static_cast<double>(count)); };
  if (needed > there) {
    throw OutOfMemoryError(
        fmt::format("out of memory on {}: {} would take about {} for parameters, gradients, optimizer and "
                    "activations, and there are {}",
                    to_string(device_), model, text(needed), text(there)));
  }
  if (needed < kLarge) return;
  console_.print("making {}, which needs about {} of {}\n", model, text(needed), text(there));
  std::fflush(stdout);
}

}  // namespace ringtape
