#include "train/training_run.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "core/random.h"
#include "dist/mesh_traffic.h"
#include "dist/verify_replicas.h"
#include "kernels/limits.h"
#include "nn/eval_scope.h"
#include "nn/model_file.h"
#include "trace/spans.h"
#include "train/make.h"

namespace ringtape {
namespace {

/// Rank 0 may take this number of additional timeouts to make a text.
constexpr double kTextTimeouts = 9;

/// The measurement of the peak may take this much longer than --comm-timeout.
constexpr double kMaxPeakSeconds = 10;

/// The random numbers of a step, such as those of dropout: a function of the seed, the data rank and the
/// step, so that a resumed run draws the same numbers. A step may use 2^40 counters.
Generator random_of_step(std::uint64_t seed, int rank, std::int64_t step) {
  Generator generator(seed + static_cast<std::uint64_t>(rank) * 0x9E3779B97F4A7C15u);
  generator.offset = static_cast<std::uint64_t>(step + 1) << 40;
  return generator;
}

void check_test_loss(const EvaluationResult& result, const std::string& when) {
  if (std::isfinite(result.loss)) return;
  throw OutputError(fmt::format("the test loss is not finite{}: found {}", when, result.loss));
}

}  // namespace

EvaluationResult Trainer::Run::evaluate_weights() {
  return ringtape::evaluate(task_, *model_, arena_->compute_dtype(), options_.data.eval_batch_size, mesh_,
                            pipeline_.get());
}

EvaluationResult Trainer::Run::evaluate() {
  const bool writes =
      is_first() && !has_trained_;  // an evaluation after training keeps the metrics of the training
  RunLog log(console_, writes ? options_.observation.metrics : "", options_.data.epochs, device_,
             counts_correct());
  describe_model();
  describe_device();
  shard_values();
  const EvaluationResult result = evaluate_weights();
  log.report(result, 0, 0);
  check_test_loss(result, "");
  return result;
}

void Trainer::Run::check_not_trained(const char* call) const {
  check(!has_trained_, "trainer: {} was called after train(), expected it before", call);
}

TrainingResult Trainer::Run::train() {
  check(!has_trained_, "trainer: train() was called twice, expected one call: make another Trainer");
  check(!options_.checkpoint.resume || !arena_->is_gathering(),
        "trainer: with ZeRO 3 and resume, train() was called after evaluate() or whole_model(), expected it "
        "before them");
  has_trained_ = true;
  LossScaler* const scaler = scaler_ ? &*scaler_ : nullptr;
  TrainingState state(*model_, *arena_, *optimizer_, scaler, mesh_, stages());
  Checkpointing checkpoints(options_.checkpoint, checkpoint_settings(),
                            warmup_follows_length(options_.schedule)
                                ? [this](std::int64_t steps) { return warmup_text(steps); }
                                : Checkpointing::WarmupOfLength(),
                            is_first());
  std::optional<Checkpoint> resumed;
  constexpr double kReads = 3;  // for the checksum and the values, and perhaps of damaged checkpoints
  const TrainingPosition begin =
      options_.checkpoint.resume
          ? state.resume(checkpoints, resumed, [this] { barrier(std::floor(kReads * seconds_of_files())); })
          : state.broadcast_from_first({});
  check(begin.step <= length_.steps, "--resume: {} is at step {}, expected at most the {} of this run",
        options_.checkpoint.folder, begin.step, counted(length_.steps, "step"));
  const ObservationOptions& observation = options_.observation;
  Training training{
      .at = begin,
      .update = Update(task_, options_, *model_, *arena_, *optimizer_, scaler,
                       !observation.metrics.empty() || !observation.report.empty(), mesh_, pipeline_.get()),
      .recorded = RecordedSteps(observation, *comm_, begin.step, length_.steps),
      .log = RunLog(console_, is_first() ? observation.metrics : "", options_.data.epochs, device_,
                    counts_correct(), begin.step),
      .values = ValueRecord(is_first() ? observation.record_values : "", begin.step),
      // The first update makes one-time allocations, such as scratch memory.
      .reported_step = observation.memory_report ? std::min(begin.step + 1, length_.steps - 1) : -1,
  };
  if (training.values.is_open()) training.update.observe(&training.values);
  if (resumed) training.log.restore(*resumed);
  // The initial values come from each group's own first rank: a task may make another model on each.
  if (divides_model()) verify_replicas(*model_, mesh_, "before the first step", pipeline_.get(), &*arena_);
  // Nothing is printed before all checks.
  describe_model();
  describe_device();
  const ScheduleOptions& schedule = options_.schedule;
  const std::int64_t warmup = warmup_steps(schedule, options_.data.batch_size, length_);
  if (schedule.shorten_warmup && warmup > 0 && warmup < schedule.warmup) {
    console_.print("warm-up of {}, a quarter of the run, as no --warmup is given\n", counted(warmup, "step"));
  }
  if (resumed) {
    console_.print("resumed after step {}, {} into epoch {}\n", begin.step, counted(begin.samples, "sample"),
                   begin.epoch + 1);
  }
  training.log.begin(begin.step, length_.steps, scaler, throughput());
  TrainingResult ended;
  try {
    const EvaluationResult result = run_steps(training, state, checkpoints);
    const std::int64_t steps = training.at.step;
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
  // The training losses are finite, so the weights are written in any case.
  check_test_loss(ended.test, " after " + counted(ended.steps, "step"));
  if (!checkpoints.failure().empty()) throw OutputError("--checkpoint: " + checkpoints.failure());
  return ended;
}

/// Runs the remaining steps; returns the result of the last evaluation.
EvaluationResult Trainer::Run::run_steps(Training& training, TrainingState& state,
                                         Checkpointing& checkpoints) {
  TrainingPosition& at = training.at;
  RunLog& log = training.log;
  std::optional<EvaluationResult> last;
  for (; at.step < length_.steps; ++at.epoch, at.samples = 0) {
    loader_->start_epoch(at.epoch, sampler_->own_of(at.samples));
    while (at.step < length_.steps && at.samples < length_.samples) {
      run_step(training);
      if (checkpoints.is_due(at.step, length_.steps)) {
        training.recorded.pause();
        log.flush();
        {
          const SpanScope phase(SpanKind::phase, "checkpoint");
          checkpoints.save(at, state.gather(), log.history());
          barrier();
        }
        log.leave_out_time();
      }
    }
    // An evaluation follows.
    if (at.step < length_.steps) {
      training.recorded.pause();
    } else {
      training.recorded.stop();
    }
    log.flush();
    last = evaluate_or_save(at.step);
    log.end_epoch(at.epoch + 1, *last);
  }
  return last ? *last : evaluate_weights();
}

/// The evaluation after a step. If it fails, a run of one rank writes the weights first, so that the training
/// is not lost; of several ranks some may have exited, so nothing is gathered (--checkpoint keeps their
/// work).
EvaluationResult Trainer::Run::evaluate_or_save(std::int64_t step) {
  try {
    return evaluate_weights();
  } catch (const std::exception&) {
    const std::string& file = options_.model.save;
    if (!file.empty() && comm_->size() == 1) {
      try {
        arena_->gather_values();
        save_model(*model_, file);
        warn("the evaluation failed; the weights after {} are in {}", counted(step, "step"), file);
      } catch (const Error& error) {
        warn("--save: {}", error.what());  // the run ends with its own error
      }
    }
    throw;
  }
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
  if (is_reported) training.memory.emplace(device_);
  const MeshTraffic traffic(mesh_, pipeline_ != nullptr ? pipeline_->communicators()
                                                        : std::vector<std::shared_ptr<Communicator>>());
  default_generator() = random_of_step(options_.data.seed, data_rank(), at.step);
  const UpdateResult result = training.update(batch, samples);
  if (is_reported) {
    training.memory->stop();
    training.traffic = traffic.table();
  }
  const double bytes_sent = traffic.bytes_sent();
  ++at.step;
  at.samples += samples;
  if (options_.distribution.check_replicas) {
    arena_->gather_values();
    verify_replicas(*model_, mesh_, fmt::format("after step {}", at.step), pipeline_.get(), &*arena_);
  }
  training.log.add({.step = at.step,
                    .epoch = step.epoch,
                    .rate = rate,
                    .samples = samples,
                    .targets = result.targets,
                    .bytes_sent = bytes_sent},
                   result);
  span.reset();
  training.recorded.end_step();
  if (!before_step.empty() || !after_step.empty()) training.recorded.pause();  // a hook may wait for it
  step.loss = result.loss;
  step.grad_norm = result.grad_norm;
  for (const Hook& hook : after_step) hook(step);
  make_texts(training);
}

void Trainer::Run::make_texts(Training& training) {
  const ObservationOptions& see = options_.observation;
  if (see.quiet && see.report.empty()) return;
  for (const TextHook& hook : texts) {
    if (training.at.step % hook.every != 0) continue;
    if (!is_first()) {
      barrier(kTextTimeouts * options_.distribution.comm_timeout);
      continue;
    }
    training.recorded.pause();
    training.log.flush();
    {
      const EvalScope eval(*model_);
      training.log.add({training.at.step, hook.title, hook.make()});
    }
    barrier(kTextTimeouts * options_.distribution.comm_timeout);
  }
}

void Trainer::Run::barrier(double seconds) const {
  if (comm_->size() == 1) return;
  comm_->barrier(Seconds(options_.distribution.comm_timeout + seconds + std::floor(seconds_of_files())));
}

/// The seconds in which a slow disk writes or reads a checkpoint.
double Trainer::Run::seconds_of_files() const {
  constexpr double kBytesPerSecond = 50e6;
  const auto values = static_cast<double>(model_elements() * (1 + state_per_parameter(options_.optimizer)));
  return 4 * values / kBytesPerSecond;
}

/// Measures the device's peak on rank 0 if the FLOPs of a sample are known and an output shows the result.
Throughput Trainer::Run::throughput() const {
  Throughput result{task_.unit, task_.units_per_sample, task_.flops_per_sample};
  const ObservationOptions& see = options_.observation;
  const bool is_seen = !see.quiet || !see.report.empty() || !see.metrics.empty();
  if (!is_seen || task_.flops_per_sample <= 0) return result;
  if (is_first()) {
    result.peak_flops = peak_flops(device_, arena_->compute_dtype()) * comm_->size();
    empty_cache(device_);  // frees the memory of the measured products, which may exceed that of training
  }
  barrier(kMaxPeakSeconds);
  return result;
}

/// This rank's samples of the next update; std::nullopt if only other ranks have samples left.
std::optional<Batch> Trainer::Run::next_batch() {
  const SpanScope phase(SpanKind::phase, "data");
  const SpanScope span(SpanKind::operation, "load batch");
  return loader_->next();
}

}  // namespace ringtape
