#include "apps/training.h"

#include <fmt/ranges.h>

#include <cmath>

#include "apps/checkpointing.h"
#include "apps/run_log.h"
#include "apps/settings.h"
#include "apps/setup.h"
#include "apps/update.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory_report.h"
#include "core/random.h"
#include "core/safetensors.h"
#include "data/loader.h"
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

/// One training run: what its parts share.
class Run {
 public:
  Run(const Task& task, const TrainOptions& options)
      : task_(task),
        options_(options),
        device_(Device::parse(options.device)),
        model_(make_model(task, options)),
        arena_(*model_, device_, parse_compute_dtype(options.dtype, device_)),
        optimizer_(make_optimizer(options, arena_)),
        loader_(task.train, std::make_shared<RandomSampler>(task.train->size(), options.seed),
                {.batch_size = options.batch_size}) {
    check(options.save.empty() || options.save != options.metrics,
          "--save and --metrics both name '{}': expected two files", options.save);
    check(!options.eval_only || !options.load.empty(),
          "--eval-only tests weights: name them with --load FILE");
    if (!options.save.empty())
      AtomicFile{options.save};  // where it cannot be written, say so before training
    choose_gemm(options.gemm, device_);
    if (options.tf32) set_tf32(true, device_);
    if (!options.load.empty()) SafetensorsFile(options.load).load_into(weights_of(*model_));
    if (arena_.compute_dtype() == DType::f16) scaler_.emplace(device_);

    const std::int64_t all = options.epochs * loader_.batches_per_epoch();
    length_ = {.samples = task.train->size(),
               .updates_per_epoch = loader_.batches_per_epoch(),
               .updates = options.max_steps > 0 ? std::min(all, options.max_steps) : all};
    schedule_ = make_schedule(options, optimizer_->learning_rate(), length_);
  }

  void print_schedule() const { fmt::print("{}", draw_schedule(options_, schedule_, length_)); }

  void describe_run() const {
    const std::string gemm =
        gemm_backend(device_) == GemmBackend::own ? "own kernel" : vendor_gemm_name(device_);
    fmt::print("{}: {} training and {} test samples\n", task_.name, task_.train->size(), task_.test->size());
    const std::string pieces =
        options_.micro_batch > 0 ? fmt::format(" in pieces of {}", options_.micro_batch) : std::string();
    fmt::print("model {} ({} parameters), batch {}{}, {} at {}\n",
               fmt::join(layer_sizes(task_, options_), "-"), arena_.parameter_elements(), options_.batch_size,
               pieces, options_.optimizer, optimizer_->learning_rate());
    fmt::print("device {} ({}), {}, GEMM by {}\n", to_string(device_), describe(device_),
               describe_compute_dtype(arena_.compute_dtype(), device_), gemm);
  }

  /// Tests the weights as they are, and reports.
  void evaluate() const {
    RunLog log(options_, device_, counts_correct());
    log.report(test(), 0, 0);
  }

  void train() {
    Checkpointing checkpoints(options_, settings(), state());
    const std::optional<Checkpoint> resumed = checkpoints.resume();
    TrainingPosition at = resumed ? resumed->position() : TrainingPosition{};
    check(at.step <= length_.updates, "{}: has {} updates behind it, but only {} were asked for",
          options_.checkpoint, at.step, length_.updates);
    RunLog log(options_, device_, counts_correct(),
               checkpoints.are_kept() ? std::optional(at.step) : std::nullopt);
    if (resumed) log.restore(*resumed);
    Update update(task_, options_, *model_, arena_, *optimizer_, scaler_ ? &*scaler_ : nullptr,
                  log.has_metrics_file());
    log.begin(length_.updates, scaler_.has_value());

    const std::int64_t recorded_step = std::min(at.step + 1, length_.updates - 1);
    std::optional<TestResult> last_test;
    for (; at.step < length_.updates; ++at.epoch, at.samples = 0) {
      loader_.start_epoch(at.epoch, at.samples);
      while (std::optional<Batch> batch = at.step < length_.updates ? loader_.next() : std::nullopt) {
        const double rate = schedule_(at.step);
        optimizer_->set_learning_rate(rate);
        // The first update makes what later ones find: scratch memory, for example.
        const bool is_recorded = options_.memory_report && at.step == recorded_step;
        if (is_recorded) memory_.emplace(device_);
        const UpdateResult update_result = update(*batch);
        if (is_recorded) memory_->stop();
        ++at.step;
        at.samples += batch->size();
        const StepRecord known = {
            .step = at.step, .epoch = at.epoch + 1, .rate = rate, .samples = batch->size()};
        if (log.add(known, update_result) && scaler_) scaler_->check_can_go_on();
        if (checkpoints.is_due(at.step, length_.updates)) {
          log.flush();
          checkpoints.save(at, log.history());
        }
      }
      log.flush();
      last_test = test();
      log.end_epoch(at.epoch + 1, *last_test);
    }
    const TestResult result = last_test ? *last_test : test();
    check(std::isfinite(result.loss),
          "training diverged: the test loss is {} after {} steps; a smaller --lr, --warmup or --clip-norm "
          "may help",
          result.loss, at.step);
    log.report(result, at.step, static_cast<std::int64_t>(optimizer_->skipped_updates().item()));
    if (memory_) fmt::print("\none update: {}", memory_report(*memory_, estimate()));
    if (!options_.save.empty()) {
      save_safetensors(options_.save, weights_of(*model_), {{"format", "pt"}});
      fmt::print("weights written to {}\n", options_.save);
    }
  }

 private:
  bool counts_correct() const { return task_.correct != nullptr; }

  /// What a checkpoint can only be resumed with.
  TrainingSettings settings() const {
    TrainingSettings settings = options_.settings;
    settings["--lr"] = fmt::format("{}", optimizer_->learning_rate());
    settings["--dtype"] = name_of(arena_.compute_dtype());  // auto may be another one elsewhere
    if (!options_.checkpoint.empty()) settings["data"] = describe_data(*task_.train);
    // A constant rate, or one that drops at fixed epochs, does not depend on how long training is to last.
    const bool any_length =
        (options_.schedule == "constant" || options_.schedule == "step") && options_.warmup != "auto";
    if (!any_length) settings["updates in all"] = fmt::format("{}", length_.updates);
    if (options_.clip_each_micro_batch) settings["--micro-batch"] = fmt::format("{}", options_.micro_batch);
    return settings;
  }

  /// What training changes, as a checkpoint names it.
  std::vector<NamedTensor> state() {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, tensor] : weights_of(*model_)) tensors.push_back({"model." + name, tensor});
    for (const auto& [name, tensor] : optimizer_->state()) tensors.push_back({"optimizer." + name, tensor});
    tensors.push_back({"optimizer.skipped_updates", optimizer_->skipped_updates()});
    if (scaler_) {
      for (const auto& [name, tensor] : scaler_->state()) tensors.push_back({"scaler." + name, tensor});
    }
    return tensors;
  }

  BytesByCategory estimate() const {
    const std::int64_t batch = options_.micro_batch > 0 ? options_.micro_batch : options_.batch_size;
    return estimate_memory({.sizes = layer_sizes(task_, options_),
                            .micro_batch = std::min({batch, options_.batch_size, task_.train->size()}),
                            .state_per_parameter = state_per_parameter(options_),
                            .recompute = options_.recompute,
                            .compute = arena_.compute_dtype()});
  }

  TestResult test() const {
    const NoGrad no_grad;
    model_->eval();
    DataLoader loader(task_.test, std::make_shared<SequentialSampler>(task_.test->size()),
                      {.batch_size = options_.eval_batch_size});
    double loss = 0;
    double correct = 0;
    loader.start_epoch(0);
    while (std::optional<Batch> batch = loader.next()) {
      const auto [features, targets] = batch->to(device_);
      Tensor prediction = (*model_)(make_input(task_, features, arena_.compute_dtype()));
      if (task_.correct) correct += task_.correct(prediction, targets).item();
      loss += task_.loss(std::move(prediction), targets, 1).item();
    }
    model_->train();
    const auto samples = static_cast<double>(task_.test->size());
    return {loss / samples, task_.correct ? correct / samples : std::nan("")};
  }

  const Task& task_;
  const TrainOptions& options_;
  Device device_;
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LossScaler> scaler_;       // for f16
  std::optional<MemoryRecording> memory_;  // of one update, for --memory-report
  DataLoader loader_;
  RunLength length_{};
  Schedule schedule_;
};

}  // namespace

void train(const Task& task, const TrainOptions& options) {
  Run run(task, options);
  if (options.print_schedule) return run.print_schedule();
  run.describe_run();
  options.eval_only ? run.evaluate() : run.train();
}

}  // namespace ringtape::apps
