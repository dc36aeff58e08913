#include "apps/training.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/chart.h"
#include "apps/metrics.h"
#include "apps/progress.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/safetensors.h"
#include "data/loader.h"
#include "kernels/gemm.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "optim/sgd.h"

namespace ringtape::apps {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::int64_t> layer_sizes(const Task& task, const TrainOptions& options) {
  std::vector<std::int64_t> sizes = {task.inputs};
  sizes.insert(sizes.end(), options.hidden.begin(), options.hidden.end());
  sizes.push_back(task.outputs);
  return sizes;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainOptions& options, ParameterArena& arena) {
  if (options.optimizer == "sgd") {
    SGDOptions sgd{.learning_rate = options.lr.value_or(0.05), .momentum = 0.9};
    sgd.weight_decay = options.weight_decay.value_or(0);
    return std::make_unique<SGD>(arena, sgd);
  }
  AdamOptions adam{.learning_rate = options.lr.value_or(1e-3)};
  const bool decoupled = options.optimizer == "adamw";
  adam.weight_decay = options.weight_decay.value_or(decoupled ? 1e-2 : 0);
  if (decoupled) return std::make_unique<AdamW>(arena, adam);
  return std::make_unique<Adam>(arena, adam);
}

Schedule make_schedule(const std::string& name, double rate, std::int64_t steps) {
  if (name == "linear") return schedule::linear_decay(rate, steps);
  if (name == "cosine") return schedule::cosine(rate, steps);
  if (name == "one-cycle") return schedule::one_cycle(rate, steps);
  return schedule::constant(rate);
}

void choose_gemm(const std::string& choice, Device device) {
  if (choice == "default") return;
  set_gemm_backend(choice == "own" ? GemmBackend::own : GemmBackend::vendor, device);
}

std::vector<NamedTensor> weights_of(Module& model) {
  std::vector<NamedTensor> weights;
  for (const NamedParameter& parameter : model.named_parameters()) {
    weights.push_back({parameter.name, *parameter.tensor});
  }
  return weights;
}

/// What a micro-batch adds to its update's log, on the device.
struct MicroResult {
  Tensor loss;
  Tensor correct;  // undefined for a task without right answers

  MicroResult& operator+=(const MicroResult& other) {
    loss = loss.defined() ? add(loss, other.loss) : other.loss;
    if (other.correct.defined()) correct = correct.defined() ? add(correct, other.correct) : other.correct;
    return *this;
  }
};

struct TestResult {
  double loss;
  double accuracy;  // NaN without right answers
};

/// One training run: what its parts share.
class Run {
 public:
  Run(const Task& task, const TrainOptions& options)
      : task_(task),
        options_(options),
        device_(Device::parse(options.device)),
        model_((manual_seed(options.seed), make_mlp(layer_sizes(task, options)))),
        arena_(*model_, device_),
        optimizer_(make_optimizer(options, arena_)),
        log_(device_),
        print_tape_(options.print_tape) {
    check(options.save.empty() || options.save != options.metrics,
          "--save and --metrics both name '{}': expected two files", options.save);
    check(options.clip_norm >= 0, "--clip-norm must be at least 0, found {}", options.clip_norm);
    check(!options.eval_only || !options.load.empty(),
          "--eval-only tests weights: name them with --load FILE");
    if (!options.save.empty())
      AtomicFile{options.save};  // where it cannot be written, say so before training
    choose_gemm(options.gemm, device_);
    if (!options.load.empty()) SafetensorsFile(options.load).load_into(weights_of(*model_));
  }

  void describe_run() const {
    const std::string gemm =
        gemm_backend(device_) == GemmBackend::own ? "own kernel" : vendor_gemm_name(device_);
    fmt::print("{}: {} training and {} test samples\n", task_.name, task_.train->size(), task_.test->size());
    const std::string pieces =
        options_.micro_batch > 0 ? fmt::format(" in pieces of {}", options_.micro_batch) : std::string();
    fmt::print("model {} ({} parameters), batch {}{}, {} at {}\n",
               fmt::join(layer_sizes(task_, options_), "-"), arena_.parameter_elements(), options_.batch_size,
               pieces, options_.optimizer, optimizer_->learning_rate());
    fmt::print("device {} ({}), GEMM by {}\n", to_string(device_), describe(device_), gemm);
  }

  /// Tests the weights as they are, and reports.
  void evaluate() {
    MetricsFile metrics(options_.metrics);
    const Clock::time_point start = Clock::now();
    const TestResult result = test();
    report(result, seconds_since(start), metrics);
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
      Tensor prediction = (*model_)(task_.prepare(features));
      if (task_.correct) correct += task_.correct(prediction, targets).item();
      loss += task_.loss(std::move(prediction), targets, 1).item();
    }
    model_->train();
    const auto samples = static_cast<double>(task_.test->size());
    return {loss / samples, task_.correct ? correct / samples : std::nan("")};
  }

  void train() {
    DataLoader loader(task_.train, std::make_shared<RandomSampler>(task_.train->size(), options_.seed),
                      {.batch_size = options_.batch_size});
    const std::int64_t per_epoch = loader.batches_per_epoch();
    const std::int64_t all = options_.epochs * per_epoch;
    total_steps_ = options_.max_steps > 0 ? std::min(all, options_.max_steps) : all;
    const Schedule rate = make_schedule(options_.schedule, optimizer_->learning_rate(), total_steps_);
    MetricsFile metrics(options_.metrics);
    Progress progress(total_steps_);
    const Clock::time_point start = Clock::now();
    last_flush_ = start;

    TestResult result{};
    for (std::int64_t epoch = 1; step_ < total_steps_; ++epoch) {
      loader.start_epoch(epoch - 1);
      const std::size_t first_loss = losses_.size();
      while (std::optional<Batch> batch = step_ < total_steps_ ? loader.next() : std::nullopt) {
        optimizer_->set_learning_rate(rate(step_));
        train_step(*batch, epoch, metrics.is_open());
        if (log_.is_full()) flush(metrics, progress);
      }
      flush(metrics, progress);
      result = test();
      last_flush_ = Clock::now();
      progress.line(epoch_line(epoch, first_loss, result, seconds_since(start)));
    }
    const double seconds = seconds_since(start);
    if (!std::isfinite(result.loss)) {
      fail("training diverged: the test loss is {} after {} steps; a smaller --lr or --clip-norm may help",
           result.loss, step_);
    }
    report(result, seconds, metrics);
    if (!options_.save.empty()) {
      save_safetensors(options_.save, weights_of(*model_), {{"format", "pt"}});
      fmt::print("weights written to {}\n", options_.save);
    }
  }

 private:
  /// One update of the weights.
  void train_step(const Batch& batch, std::int64_t epoch, bool wants_norm) {
    const std::int64_t micro_batch = options_.micro_batch > 0 ? options_.micro_batch : batch.size();
    window_.begin(batch.size());
    optimizer_->zero_grad();
    MicroResult sum;
    for (const MicroBatch& piece : cut_into_micro_batches(batch.size(), micro_batch)) {
      sum += forward_backward(batch.slice(piece.first, piece.size));
    }
    Tensor norm;
    if (options_.clip_norm > 0 || wants_norm) {
      norm = clip_grad_norm(arena_, options_.clip_norm > 0 ? options_.clip_norm : INFINITY);
    }
    optimizer_->step();
    ++step_;
    log_.add({.step = step_, .epoch = epoch, .rate = optimizer_->learning_rate(), .samples = batch.size()},
             sum.loss, norm, sum.correct);
  }

  MicroResult forward_backward(const Batch& batch) {
    const TapeScope scope;
    const auto [features, targets] = batch.to(device_);
    Tensor prediction = (*model_)(task_.prepare(features));
    MicroResult result;
    if (task_.correct) result.correct = to(task_.correct(prediction, targets), DType::f32);
    result.loss = task_.loss(std::move(prediction), targets, window_.divisor());
    if (std::exchange(print_tape_, false)) Tape::current().print();
    result.loss.backward();
    result.loss = result.loss.detach();
    return result;
  }

  /// Brings the finished steps to the metrics file, the curve and the progress line.
  void flush(MetricsFile& metrics, Progress& progress) {
    if (log_.is_empty()) return;
    const std::vector<StepRecord> records = log_.take();
    if (task_.correct) check_targets(device_);
    std::int64_t samples = 0;
    for (const StepRecord& record : records) samples += record.samples;
    const double rate = static_cast<double>(samples) / seconds_since(last_flush_);
    last_flush_ = Clock::now();
    for (const StepRecord& record : records) {
      losses_.push_back(record.loss);
      // What the progress line shows is an exponential mean over about the last hundred steps.
      const double weight = std::max(0.01, 1.0 / static_cast<double>(losses_.size()));
      recent_loss_ += weight * (record.loss - recent_loss_);
      recent_sample_seconds_ += weight * (1 / rate - recent_sample_seconds_);
      const double share = static_cast<double>(record.correct) / static_cast<double>(record.samples);
      recent_accuracy_ += weight * (share - recent_accuracy_);
      if (metrics.is_open()) {
        metrics.write({{"step", record.step},
                       {"epoch", record.epoch},
                       {"loss", record.loss},
                       {"lr", record.rate},
                       {"grad_norm", record.grad_norm},
                       {"samples_per_s", rate}});
      }
    }
    progress.update({records.back().epoch, options_.epochs, step_, recent_loss_,
                     task_.correct ? recent_accuracy_ : -1, 1 / recent_sample_seconds_});
  }

  std::string epoch_line(std::int64_t epoch, std::size_t first_loss, const TestResult& result,
                         double seconds) const {
    double sum = 0;
    for (std::size_t i = first_loss; i < losses_.size(); ++i) sum += losses_[i];
    const double mean = sum / static_cast<double>(losses_.size() - first_loss);
    const std::string accuracy =
        task_.correct ? fmt::format("  test accuracy {:.2f}%", result.accuracy * 100) : std::string();
    return fmt::format("epoch {}/{}  training loss {:.4f}  test loss {:.4f}{}  {:.1f} s", epoch,
                       options_.epochs, mean, result.loss, accuracy, seconds);
  }

  void report(const TestResult& result, double seconds, MetricsFile& metrics) const {
    const std::string curve = line_chart(losses_, 72, 10);
    if (!curve.empty()) fmt::print("\ntraining loss, steps 1 to {}\n{}\n", step_, curve);
    if (task_.correct) fmt::print("test accuracy {:.2f}%, ", result.accuracy * 100);
    const double peak = static_cast<double>(memory_stats(device_).peak) / (1024.0 * 1024.0);
    fmt::print("test loss {:.4f} after {} steps in {:.1f} s on {}, {:.1f} MiB at peak\n", result.loss, step_,
               seconds, to_string(device_), peak);
    nlohmann::ordered_json done = {{"event", "done"}};
    if (task_.correct) done["test_accuracy"] = result.accuracy;
    done["test_loss"] = result.loss;
    done["steps"] = step_;
    done["seconds"] = seconds;
    done["device"] = to_string(device_);
    metrics.finish(done);
  }

  const Task& task_;
  const TrainOptions& options_;
  Device device_;
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_;
  std::unique_ptr<Optimizer> optimizer_;
  AccumulationWindow window_;
  StepLog log_;
  bool print_tape_;

  std::int64_t total_steps_ = 0;
  std::int64_t step_ = 0;
  std::vector<double> losses_;
  double recent_loss_ = 0;
  double recent_accuracy_ = 0;
  double recent_sample_seconds_ = 0;
  Clock::time_point last_flush_;
};

}  // namespace

void train(const Task& task, const TrainOptions& options) {
  Run run(task, options);
  run.describe_run();
  options.eval_only ? run.evaluate() : run.train();
}

}  // namespace ringtape::apps
