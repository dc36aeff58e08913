#include <algorithm>
#include <cmath>
#include <utility>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/numbers.h"
#include "nn/compute_dtype.h"
#include "nn/memory_estimate.h"
#include "nn/model_file.h"
#include "profile/memory_report.h"
#include "train/console.h"
#include "train/graph_table.h"
#include "train/make.h"
#include "train/option_list.h"
#include "train/output_files.h"
#include "train/profile_table.h"
#include "train/timeline.h"
#include "train/training_run.h"
#include "train/write_report.h"

namespace ringtape {

/// If a file cannot be written, still writes the others, and then throws OutputError.
void Trainer::Run::write_outputs(Training& training, const EvaluationResult& result) {
  std::string failure;
  const auto attempt = [&failure](const char* flag, const auto& write) {
    try {
      write();
    } catch (const Error& error) {
      if (!failure.empty()) warn("{}", failure);
      failure = fmt::format("{}: {}", flag, error.what());
    }
  };
  const RunLog& log = training.log;
  Update& update = training.update;
  RecordedSteps& recorded = training.recorded;
  const ObservationOptions& observation = options_.observation;
  // Before the limits are measured, which would raise the peak of memory.
  report::RunReport report = report_of(log);
  report.results = results_of(log, result);
  arena_->gather_values();
  const std::shared_ptr<Module> whole = options_.model.save.empty() ? nullptr : whole_model();
  if (whole != nullptr) {
    attempt("--save", [&] {
      save_model(*whole, options_.model.save);
      console_.print("weights written to {}\n", options_.model.save);
    });
  }
  if (!options_.model.save.empty()) barrier();
  if (is_first() && !observation.save_tape.empty()) {
    attempt("--save-tape", [&] { save_tape(update.tape(), observation.save_tape, console_); });
  }
  if (observation.print_graph) {
    attempt("--print-graph", [&] { console_.print("\n{}", graph_table(update.graph_nodes())); });
  }
  if (!observation.save_graph.empty()) {
    attempt("--save-graph", [&] {
      save_graph(update.graph_nodes(), observation.save_graph);
      console_.print("graph written to {}\n", observation.save_graph);
    });
  }
  std::optional<Profile> profile;
  if (recorded.exist() && is_first() && (observation.profile || !observation.report.empty())) {
    profile = profile_of_steps(recorded, arena_->compute_dtype());
  }
  if (profile && observation.profile) print_profile(*profile, recorded, observation.sort, console_);
  if (training.memory) {
    console_.print("\none update: {}", memory_report(*training.memory, estimate_memory(), memory_before_));
    if (comm_->size() > 1) console_.print("\n{}", training.traffic);
  }
  if (recorded.exist() && !observation.timeline.empty()) {
    attempt("--timeline", [&] { write_timeline(recorded, observation.timeline, *comm_, console_); });
  }
  if (!observation.report.empty()) {
    report.profile = profile;
    report.tape = update.tape();
    attempt("--report", [&] {
      report::write_report({.report = std::move(report),
                            .recorded = recorded,
                            .memory_formula = estimate_memory(),
                            .data_set = memory_before_},
                           observation.report, *comm_, console_);
    });
  }
  barrier();
  if (!failure.empty()) throw OutputError(failure);
}

/// The sections of a report that every run has.
report::RunReport Trainer::Run::report_of(const RunLog& log) const {
  report::RunReport report;
  report.title = task_.name;
  report.subtitle = fmt::format("{}; {} on {}", describe_training(),
                                describe_compute_dtype(arena_->compute_dtype(), device_), to_string(device_));
  if (comm_->size() > 1) report.subtitle += fmt::format(", {}", counted(comm_->size(), "rank"));
  report.world_size = comm_->size();
  for (const auto& [name, value] : task_.settings) report.settings.push_back({name, value});
  for (const auto& [name, value] :
       values_of(options_, {Effect::result, Effect::execution, Effect::machine})) {
    if (!value.empty()) report.settings.push_back({"--" + name, value});
  }
  report.curves = log.curves();
  report.texts = log.texts();
  return report;
}

/// The main results at the top of the page.
std::vector<Fact> Trainer::Run::results_of(const RunLog& log, const EvaluationResult& result) const {
  std::vector<Fact> results;
  if (counts_correct()) results.push_back({"test accuracy", fmt::format("{:.2f}%", 100 * result.accuracy)});
  results.push_back({"test loss", fmt::format("{:.4f}", result.loss)});
  const std::string earlier =
      log.first() > 0 ? fmt::format(", {} of them before it was resumed", grouped(log.first())) : "";
  results.push_back({"steps" + earlier, grouped(std::ssize(log.curves().steps))});
  results.push_back({log.first() > 0 ? "time since it was resumed" : "time", time_text(log.seconds())});
  const Throughput& speed = log.throughput();
  const double rate = log.samples_per_second();
  if (rate > 0 && speed.units_per_sample != 1) {
    results.push_back({speed.unit + " per second", grouped(std::llround(speed.units_per_second(rate)))});
  }
  if (rate > 0 && speed.peak_flops > 0) {
    results.push_back({fmt::format("MFU: share of {:.3g} GFLOP/s, as measured", speed.peak_flops * 1e-9),
                       fmt::format("{:.1f}%", 100 * speed.utilisation(rate))});
  }
  results.push_back({"memory at peak", bytes_text(static_cast<double>(memory_stats(device_).peak))});
  return results;
}

/// Writes the report of a run that ends with an error. Other ranks may have exited, so nothing is gathered.
void Trainer::Run::write_report_of_failure(const Training& training, const std::string& error) const {
  const std::string& file = options_.observation.report;
  if (!is_first() || file.empty() || training.log.curves().steps.empty()) return;
  report::RunReport report = report_of(training.log);
  report.error = error;
  report.tape = training.update.tape();
  try {
    report::save_report(std::move(report), file, device_, console_);
  } catch (const Error& reason) {
    warn("no report: {}", reason.what());  // the run ends with its own error
  }
}

/// The largest number of this rank's samples in a forward pass.
std::int64_t Trainer::Run::max_micro_batch() const {
  const std::int64_t own = std::min(batch_of_rank(), task_.train->size());
  const std::int64_t micro_batch = options_.accumulation.micro_batch;
  return micro_batch > 0 ? std::min(micro_batch, own) : own;
}

GptPart Trainer::Run::part_of_rank() const {
  const DistributionOptions& ranks = options_.distribution;
  GptPart part{.tensor = ranks.tensor_parallel,
               .tensor_rank = mesh_.along(MeshDimension::tensor)->rank(),
               .sequence = ranks.sequence_parallel,
               .context = ranks.context_parallel,
               .stages = ranks.pipeline_parallel,
               .stage = mesh_.along(MeshDimension::pipeline)->rank(),
               .chunks = ranks.pipeline_chunks,
               .micro_batches = ceil_div(batch_of_rank(), max_micro_batch())};
  if (part.stages == 1) return part;
  const PipelineShape shape{part.stages, static_cast<int>(part.micro_batches), part.chunks};
  part.in_flight = micro_batches_in_flight(ranks.pipeline_schedule, shape, part.stage);
  return part;
}

/// The memory of an update by the task's formula, without ZeRO's sharding.
BytesByCategory Trainer::Run::estimate_memory(DType compute, const GptPart& part) const {
  if (!task_.estimate_memory) return {};
  return task_.estimate_memory({.micro_batch = max_micro_batch(),
                                .state_per_parameter = state_per_parameter(options_.optimizer),
                                .compute = compute,
                                .part = part});
}

/// The same with the arena's sharding, and without gradients and state of frozen parameters. While a backward
/// runs there are in addition, in ZeRO 2, the gradients of two buckets, and in ZeRO 3 the units that are
/// gathered at the same time, and their gradients.
BytesByCategory Trainer::Run::estimate_memory() const {
  using enum MemoryCategory;
  const DType compute = arena_->compute_dtype();
  BytesByCategory bytes = estimate_memory(compute, part_of_rank());
  const std::int64_t frozen = arena_->parameter_elements() - arena_->trained_elements();
  if (bytes.total() == 0 || !(arena_->is_sharded() || frozen > 0)) return bytes;
  const ArenaSharding& sharding = arena_->sharding();
  const BytesByCategory of_arena =
      estimate_arena({arena_->buckets(), arena_->size(), arena_->shard_size()}, sharding.zero_stage,
                     state_per_parameter(options_.optimizer), compute);
  bytes[gradients] = of_arena[gradients];
  bytes[optimizer_state] = of_arena[optimizer_state];
  if (sharding.zero_stage == 2) {
    bytes[gradients] += allocated_bytes(max_of_neighbours(arena_->buckets()), DType::f32);
  }
  if (sharding.zero_stage == 3) {
    const std::int64_t units = arena_->max_unit_elements();
    bytes[gradients] += allocated_bytes(units, DType::f32);
    bytes[parameters] = of_arena[parameters] +
                        estimate_arena({}, std::vector{frozen}, 0, compute)[parameters] +
                        allocated_bytes(sharding.reshard_after_forward ? units : arena_->size(), compute);
  }
  return bytes;
}

}  // namespace ringtape
