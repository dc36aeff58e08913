#include "apps/training.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "apps/checkpointing.h"
#include "apps/evaluation.h"
#include "apps/output_files.h"
#include "apps/profile_table.h"
#include "apps/recorded_steps.h"
#include "apps/report/write_report.h"
#include "apps/run_log.h"
#include "apps/settings.h"
#include "apps/setup.h"
#include "apps/timeline.h"
#include "apps/training_state.h"
#include "apps/update.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/memory_report.h"
#include "core/numbers.h"
#include "core/random.h"
#include "core/safetensors.h"
#include "core/spans.h"
#include "data/loader.h"
#include "dist/connect.h"
#include "dist/traffic.h"
#include "dist/verify_same.h"
#include "kernels/gemm.h"
#include "nn/compute_dtype.h"
#include "nn/layers.h"
#include "nn/memory_estimate.h"
#include "optim/loss_scaler.h"

namespace ringtape::apps {
namespace {

std::vector<std::int64_t> layer_sizes(const Task& task, const TrainOptions& options) {
  std::vector<std::int64_t> sizes = {task.inputs};
  sizes.insert(sizes.end(), options.hidden.begin(), options.hidden.end());
  sizes.push_back(task.outputs);
  return sizes;
}

void choose_gemm(const std::string& choice, Device device) {
  if (choice == "default") return;
  set_gemm_backend(choice == "own" ? GemmBackend::own : GemmBackend::vendor, device);
}

std::shared_ptr<Sequential> make_model(const Task& task, const TrainOptions& options) {
  manual_seed(options.seed);
  const std::shared_ptr<Sequential> model = make_mlp(layer_sizes(task, options));
  model->set_recompute(2 * options.recompute);  // a layer is a Linear and its ReLU
  return model;
}

/// Samples of the global batch that one rank reads.
std::int64_t rank_batch(const TrainOptions& options, const Communicator& ranks) {
  const std::int64_t below = options.batch_size - options.batch_size % ranks.size();
  check(below == options.batch_size, "--batch-size {}: expected a multiple of the {} ranks, such as {}",
        options.batch_size, ranks.size(), below > 0 ? below : ranks.size());
  return options.batch_size / ranks.size();
}

/// Samples that the loader may have read ahead: with large batches fewer of them, to save memory.
constexpr std::int64_t kSamplesAhead = 16384;

/// One training run: what its parts share. All ranks do the same; the first alone writes files.
class Run {
 public:
  Run(const Task& task, const TrainOptions& options, std::shared_ptr<Communicator> ranks)
      : task_(task),
        options_(options),
        ranks_(std::move(ranks)),
        device_(ranks_->device()),
        beforehand_(memory_stats(device_).live_by_category),
        model_(make_model(task, options)),
        arena_(*model_, device_, parse_compute_dtype(options.dtype, device_),
               make_sharding(options, ranks_->rank(), ranks_->size())),
        optimizer_(make_optimizer(options, arena_)),
        rate_(optimizer_->learning_rate()),
        sampler_(own_part(std::make_shared<RandomSampler>(task.train->size(), options.seed))),
        loader_(task.train, sampler_,
                {.batch_size = rank_batch(options, *ranks_),
                 .prefetch_batches = std::clamp<std::int64_t>(kSamplesAhead / options.batch_size, 1, 16)}) {
    check_output_files(options, is_first());
    check(!options.eval_only || !options.load.empty(),
          "--eval-only tests weights: name them with --load FILE");
    choose_gemm(options.gemm, device_);
    if (options.tf32) set_tf32(true, device_);
    if (!options.load.empty()) SafetensorsFile(options.load).load_into(weights_of(*model_));
    if (arena_.compute_dtype() == DType::f16) scaler_.emplace(device_);

    const std::int64_t samples = task.train->size();
    const std::int64_t updates_per_epoch = (samples + options.batch_size - 1) / options.batch_size;
    const std::int64_t all = options.epochs * updates_per_epoch;
    length_ = {.samples = samples,
               .updates_per_epoch = updates_per_epoch,
               .updates = options.max_steps > 0 ? std::min(all, options.max_steps) : all};
    schedule_ = make_schedule(options, rate_, length_);
  }

  void print_schedule() const { fmt::print("{}", draw_schedule(options_, schedule_, length_)); }

  void describe_run() const {
    const std::string gemm =
        gemm_backend(device_) == GemmBackend::own ? "own kernel" : vendor_gemm_name(device_);
    fmt::print("{}: {} training and {} test samples\n", task_.name, task_.train->size(), task_.test->size());
    fmt::print("{}\n", describe_training());
    fmt::print("device {} ({}), {}, GEMM by {}\n", to_string(device_), describe(device_),
               describe_compute_dtype(arena_.compute_dtype(), device_), gemm);
    if (ranks_->size() > 1) {
      fmt::print("{} ranks connected by {}, {} samples of a batch each\n", ranks_->size(), ranks_->backend(),
                 rank_batch(options_, *ranks_));
    }
  }

  /// Tests the weights as they are, and reports.
  void evaluate() const {
    RunLog log(options_, device_, counts_correct(), is_first());
    log.report(test(), 0, 0);
  }

  void train() {
    LossScaler* const scaler = scaler_ ? &*scaler_ : nullptr;
    TrainingState state(*model_, arena_, *optimizer_, scaler, *ranks_);
    Checkpointing checkpoints(options_, settings(), is_first());
    std::optional<Checkpoint> resumed;
    const TrainingPosition begin =
        options_.resume ? state.resume(checkpoints, resumed) : state.share_from_first({});
    check(begin.step <= length_.updates, "{}: has {} updates behind it, but only {} were asked for",
          options_.checkpoint, begin.step, length_.updates);
    check_timeline(options_.timeline, *ranks_);
    Training training{
        .at = begin,
        .log = RunLog(options_, device_, counts_correct(), is_first(),
                      checkpoints.are_kept() ? std::optional(begin.step) : std::nullopt),
        .update = Update(task_, options_, *model_, arena_, *optimizer_, scaler,
                         !options_.metrics.empty() || !options_.report.empty(), ranks_),
        .recorded = RecordedSteps(options_, *ranks_, begin.step, length_.updates),
        // The first update makes what later ones find: scratch memory, for example.
        .reported_step = options_.memory_report ? std::min(begin.step + 1, length_.updates - 1) : -1,
    };
    if (resumed) training.log.restore(*resumed);
    training.log.begin(begin.step, length_.updates, scaler);

    try {
      finish(training, update_weights(training, state, checkpoints));
    } catch (const Error& error) {
      leave_report(training, error.what());
      throw;
    }
  }

 private:
  /// What a training has that a test of the weights has not.
  struct Training {
    TrainingPosition at;
    RunLog log;
    Update update;
    RecordedSteps recorded;
    std::int64_t reported_step;  ///< --memory-report is of this one, counted from 0
  };

  /// All updates that are left, and the result of the last test.
  TestResult update_weights(Training& training, TrainingState& state, Checkpointing& checkpoints) {
    auto& [at, log, update, recorded, reported_step] = training;
    std::optional<TestResult> last_test;
    for (; at.step < length_.updates; ++at.epoch, at.samples = 0) {
      loader_.start_epoch(at.epoch, sampler_->own_of(at.samples));
      while (at.step < length_.updates && at.samples < length_.samples) {
        step(training);
        if (checkpoints.is_due(at.step, length_.updates)) {
          const SpanScope phase(SpanKind::phase, "checkpoint");
          log.flush();
          checkpoints.save(at, state.gather(), log.history());
        }
      }
      // A test follows.
      at.step < length_.updates ? recorded.pause() : recorded.stop();
      log.flush();
      last_test = test();
      log.end_epoch(at.epoch + 1, *last_test);
    }
    return last_test ? *last_test : test();
  }

  /// One update of the weights.
  void step(Training& training) {
    TrainingPosition& at = training.at;
    training.recorded.begin_step(at.step + 1);
    std::optional<SpanScope> span(std::in_place, SpanKind::step, fmt::format("step {}", at.step + 1), "");
    const std::optional<Batch> batch = next_batch();
    const std::int64_t samples = std::min(options_.batch_size, length_.samples - at.samples);
    const double rate = schedule_(at.step);
    optimizer_->set_learning_rate(rate);
    const bool is_reported = at.step == training.reported_step;
    if (is_reported) memory_.emplace(device_);
    const CollectiveCounts sent_before = ranks_->collectives();
    const UpdateResult result = training.update(batch);
    if (is_reported) {
      memory_->stop();
      traffic_ = traffic_table(sent_before, ranks_->collectives(), ranks_->size(), 1);
    }
    ++at.step;
    at.samples += samples;
    training.log.add({.step = at.step, .epoch = at.epoch + 1, .rate = rate, .samples = samples}, result);
    span.reset();
    training.recorded.end_step();
  }

  /// Prints and writes what was asked for.
  void finish(Training& training, const TestResult& result) {
    auto& [at, log, update, recorded, reported_step] = training;
    check(std::isfinite(result.loss),
          "training diverged: the test loss is {} after {} steps; a smaller --lr or --clip-norm, or a longer "
          "--warmup, may help",
          result.loss, at.step);
    const auto skipped = static_cast<std::int64_t>(optimizer_->skipped_updates().item());
    check(at.step == 0 || skipped < at.step,
          "nothing was learned: the gradients of all {} updates were not finite, and the updates skipped",
          at.step);
    log.report(result, at.step, skipped);
    // Before limits are measured.
    report::RunReport report = report_of(log);
    report.results = results_of(log, result);
    arena_.gather_values();
    if (is_first() && !options_.save.empty()) {
      save_safetensors(options_.save, weights_of(*model_), {{"format", "pt"}});
      fmt::print("weights written to {}\n", options_.save);
    }
    if (is_first() && !options_.save_tape.empty()) save_tape(update.tape(), options_.save_tape);
    std::optional<Profile> profile;
    if (recorded.exist() && is_first() && (options_.profile || !options_.report.empty())) {
      profile = profile_of(recorded, arena_.compute_dtype());
    }
    if (profile && options_.profile) print_profile(*profile, recorded, options_.sort);
    if (memory_) fmt::print("\none update: {}", memory_report(*memory_, estimate(), beforehand_));
    if (memory_ && ranks_->size() > 1) fmt::print("\n{}", traffic_);
    if (recorded.exist() && !options_.timeline.empty()) write_timeline(recorded, options_.timeline, *ranks_);
    if (!options_.report.empty()) {
      report.profile = profile;
      report.tape = update.tape();
      report::write_report({.report = std::move(report),
                            .recorded = recorded,
                            .memory_formula = estimate(),
                            .data_set = beforehand_},
                           options_.report, *ranks_);
    }
  }

  /// "model 784-256-10 (203530 parameters), batch 64, adam at 0.001"
  std::string describe_training() const {
    const std::string pieces =
        options_.micro_batch > 0 ? fmt::format(" in pieces of {}", options_.micro_batch) : std::string();
    return fmt::format("model {} ({} parameters), batch {}{}, {} at {}",
                       fmt::join(layer_sizes(task_, options_), "-"), arena_.parameter_elements(),
                       options_.batch_size, pieces, options_.optimizer, rate_);
  }

  /// What --report shows of every run.
  report::RunReport report_of(const RunLog& log) const {
    report::RunReport report;
    report.title = task_.name;
    report.subtitle =
        fmt::format("{}; {} on {}", describe_training(),
                    describe_compute_dtype(arena_.compute_dtype(), device_), to_string(device_));
    if (ranks_->size() > 1) report.subtitle += fmt::format(", {} ranks", ranks_->size());
    report.ranks = ranks_->size();
    report.settings = options_.given;
    report.curves = log.curves();
    return report;
  }

  /// The few figures at the top of the page.
  report::Facts results_of(const RunLog& log, const TestResult& result) const {
    report::Facts results;
    if (counts_correct())
      results.emplace_back("test accuracy", fmt::format("{:.2f}%", 100 * result.accuracy));
    results.emplace_back("test loss", fmt::format("{:.4f}", result.loss));
    const std::string earlier =
        log.first() > 0 ? fmt::format(", {} of them before it was resumed", grouped(log.first())) : "";
    results.emplace_back("steps" + earlier, grouped(std::ssize(log.curves().steps)));
    results.emplace_back(log.first() > 0 ? "time since it was resumed" : "time", time_text(log.seconds()));
    results.emplace_back("memory at peak", bytes_text(static_cast<double>(memory_stats(device_).peak)));
    return results;
  }

  /// What is known of a run that ends with an error. Other ranks may be gone, so nothing is gathered.
  void leave_report(const Training& training, const std::string& error) const {
    if (!is_first() || options_.report.empty() || training.log.curves().steps.empty()) return;
    report::RunReport report = report_of(training.log);
    report.error = error;
    report.tape = training.update.tape();
    try {
      report::save_report(std::move(report), options_.report, device_);
    } catch (const Error& reason) {
      fmt::print("no report: {}\n", reason.what());  // the run's own error is the one to end with
    }
  }

  bool counts_correct() const { return task_.correct != nullptr; }
  bool is_first() const { return ranks_->rank() == 0; }

  /// This rank's samples of the next update; none where only other ranks have samples left.
  std::optional<Batch> next_batch() {
    const SpanScope phase(SpanKind::phase, "data");
    const SpanScope span(SpanKind::operation, "load batch");
    return loader_.next();
  }

  std::shared_ptr<DistributedSampler> own_part(std::shared_ptr<const Sampler> all) const {
    return std::make_shared<DistributedSampler>(std::move(all), ranks_->rank(), ranks_->size());
  }

  /// What a checkpoint can only be resumed with.
  TrainingSettings settings() const {
    TrainingSettings settings = options_.settings;
    settings["--lr"] = fmt::format("{}", rate_);
    settings["--dtype"] = name_of(arena_.compute_dtype());  // auto may be another one elsewhere
    if (!options_.checkpoint.empty()) settings["data"] = describe_data(*task_.train);
    // A constant rate, or one that drops at fixed epochs, does not depend on how long training is to last.
    const bool any_length =
        (options_.schedule == "constant" || options_.schedule == "step") && options_.warmup != "auto";
    if (!any_length) settings["updates in all"] = fmt::format("{}", length_.updates);
    if (options_.clip_each_micro_batch) {
      settings["--micro-batch"] = fmt::format("{}", options_.micro_batch);
      settings["ranks"] = fmt::format("{}", ranks_->size());
    }
    return settings;
  }

  BytesByCategory estimate() const {
    const std::int64_t own = rank_batch(options_, *ranks_);
    const std::int64_t batch = options_.micro_batch > 0 ? std::min(options_.micro_batch, own) : own;
    BytesByCategory bytes = estimate_memory({.sizes = layer_sizes(task_, options_),
                                             .micro_batch = std::min(batch, task_.train->size()),
                                             .state_per_parameter = state_per_parameter(options_),
                                             .recompute = options_.recompute,
                                             .compute = arena_.compute_dtype()});
    if (arena_.is_sharded()) {
      const auto shard = static_cast<std::size_t>(arena_.shard_size()) * sizeof(float);
      bytes[MemoryCategory::optimizer_state] =
          static_cast<std::size_t>(state_per_parameter(options_)) * shard;
      // The shard, and the two buckets that have a buffer at a time.
      if (options_.zero == 2) {
        const auto buckets = static_cast<std::size_t>(most_of_neighbours(arena_.buckets()));
        bytes[MemoryCategory::gradients] = shard + buckets * sizeof(float);
      }
    }
    return bytes;
  }

  TestResult test() const {
    return apps::evaluate(task_, *model_, arena_.compute_dtype(), options_.eval_batch_size, *ranks_);
  }

  const Task& task_;
  const TrainOptions& options_;
  std::shared_ptr<Communicator> ranks_;
  Device device_;
  BytesByCategory beforehand_;  // the data set, where it is on this device
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_;
  std::unique_ptr<Optimizer> optimizer_;
  double rate_;                            // --lr, from which the schedule starts
  std::optional<LossScaler> scaler_;       // for f16
  std::optional<MemoryRecording> memory_;  // of one update, for --memory-report
  std::string traffic_;                    // of the same
  std::shared_ptr<DistributedSampler> sampler_;
  DataLoader loader_;
  RunLength length_{};
  Schedule schedule_;
};

}  // namespace

void train(const Task& task, const TrainOptions& options) {
  const Launch launch = detect_launch(process_environment());
  if (options.show_launch) {
    fmt::print("{}", describe(launch));
    return;
  }
  const Device device = launch.size == 1 ? Device::parse(options.device)
                                         : device_of_rank(launch, options.device, cuda_device_count());
  const auto ranks = connect(launch, device, Seconds(options.comm_timeout), slow_link_of(options.slow_link));
  if (ranks->size() > 1) {
    verify_same(*ranks, "the ranks' programs or flags", "line", options.describe_program());
  }
  // One rank tells of the run. Errors of all of them are shown.
  if (ranks->rank() != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) fail("cannot open /dev/null");
  Run run(task, options, ranks);
  if (options.print_schedule) return run.print_schedule();
  run.describe_run();
  options.eval_only ? run.evaluate() : run.train();
}

}  // namespace ringtape::apps
