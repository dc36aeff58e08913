#include "train/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "autograd/ops.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "plot/terminal_chart.h"
#include "trace/timing.h"

namespace ringtape {
double Throughput::units_per_second(double samples_per_second) const {
  return samples_per_second * static_cast<double>(units_per_sample);
}

double Throughput::utilisation(double samples_per_second) const {
  return peak_flops > 0 ? samples_per_second * flops_per_sample / peak_flops : 0;
}

std::string Throughput::text(double samples_per_second) const {
  std::string text = fmt::format("{:.0f} {}/s", units_per_second(samples_per_second), unit);
  if (peak_flops > 0) text += fmt::format(", {:.0f}% MFU", 100 * utilisation(samples_per_second));
  return text;
}

RunLog::RunLog(Console console, const std::string& metrics, std::int64_t epochs, Device device,
               bool counts_correct, std::int64_t resumed_step)
    : console_(console),
      epochs_(epochs),
      device_(device),
      counts_correct_(counts_correct),
      steps_(device),
      metrics_("--metrics", metrics, resumed_step),
      progress_(console) {}

double RunLog::seconds() const {
  return seconds_since(start_);
}

std::vector<double> RunLog::losses() const {
  std::vector<double> losses;
  for (const StepRecord& step : curves_.steps) losses.push_back(step.loss);
  return losses;
}

void RunLog::begin(std::int64_t first, std::int64_t steps, const LossScaler* scaler, Throughput throughput) {
  first_ = first;
  throughput_ = std::move(throughput);
  scaler_ = scaler;
  reset_peak_memory(device_);
  start_ = last_flush_ = Clock::now();
  progress_.begin(first, steps);
}

void RunLog::add(const StepRecord& known, const UpdateResult& result) {
  steps_.add(known, result.loss, result.grad_norm, result.correct);
  if (steps_.is_full()) flush();
}

void RunLog::flush() {
  if (steps_.is_empty()) return;
  const std::vector<StepRecord> records = steps_.take();
  check_indices(device_);
  std::int64_t samples = 0;
  for (const StepRecord& record : records) samples += record.samples;
  const double seconds = seconds_since(last_flush_);
  const double rate = static_cast<double>(samples) / seconds;
  trained_samples_ += static_cast<double>(samples);
  trained_seconds_ += seconds;
  last_flush_ = Clock::now();
  for (const StepRecord& record : records) show(record, rate);
  progress_.update({records.back().epoch, epochs_, records.back().step, without_nan_sign(recent_loss_),
                    counts_correct_ ? recent_accuracy_ : -1, throughput_.text(1 / recent_sample_seconds_)});
  if (scaler_ != nullptr) scaler_->check_can_go_on();
}

void RunLog::show(const StepRecord& record, double samples_per_second) {
  curves_.steps.push_back(record);
  curves_.steps.back().samples_per_second = samples_per_second;
  // The progress line shows an exponential mean over about the last hundred steps.
  const double weight = std::max(0.01, 1.0 / static_cast<double>(curves_.steps.size()));
  if (std::isfinite(record.loss)) recent_loss_ += weight * (record.loss - recent_loss_);
  recent_sample_seconds_ += weight * (1 / samples_per_second - recent_sample_seconds_);
  if (record.targets > 0) {
    const double accuracy = static_cast<double>(record.correct) / static_cast<double>(record.targets);
    recent_accuracy_ += weight * (accuracy - recent_accuracy_);
  }
  Json line{{"step", record.step}, {"epoch", record.epoch},         {"loss", record.loss},
            {"lr", record.rate},   {"grad_norm", record.grad_norm}, {"samples_per_s", samples_per_second}};
  if (throughput_.units_per_sample != 1) {
    line[throughput_.unit + "_per_s"] = throughput_.units_per_second(samples_per_second);
  }
  if (record.bytes_sent > 0) line["bytes_sent"] = record.bytes_sent;
  if (throughput_.peak_flops > 0) line["mfu"] = throughput_.utilisation(samples_per_second);
  metrics_.write(line);
  const bool is_finite = scaler_ != nullptr || std::isfinite(record.loss);
  check(is_finite || record.step > 1,
        "the loss of step 1 is {}, before any update: expected data and initial weights of a finite loss",
        without_nan_sign(record.loss));
  check(is_finite,
        "training diverged: the loss of step {} is {}; a smaller --lr or --clip-norm, or a longer --warmup, "
        "may help",
        record.step, without_nan_sign(record.loss));
}

void RunLog::add(StepText text) {
  progress_.line(fmt::format("step {}, {}:\n{}\n", text.step, text.title, text.text));
  texts_.push_back(std::move(text));
  leave_out_time();
}

void RunLog::leave_out_time() {
  last_flush_ = Clock::now();
}

double RunLog::samples_per_second() const {
  return trained_seconds_ > 0 ? trained_samples_ / trained_seconds_ : 0;
}

void RunLog::end_epoch(std::int64_t epoch, const EvaluationResult& result) {
  curves_.evaluations.push_back(
      {.step = std::ssize(curves_.steps), .loss = result.loss, .accuracy = result.accuracy});
  const std::vector<double> losses = this->losses();
  const auto first = losses.begin() + static_cast<std::ptrdiff_t>(first_of_epoch_);
  const double mean = std::accumulate(first, losses.end(), 0.0) / static_cast<double>(losses.end() - first);
  first_of_epoch_ = losses.size();
  const std::string accuracy =
      counts_correct_ ? fmt::format("  test accuracy {:.2f}%", result.accuracy * 100) : std::string();
  progress_.line(fmt::format("epoch {}/{}  training loss {:.4f}  test loss {:.4f}{}  {:.1f} s", epoch,
                             epochs_, without_nan_sign(mean), result.loss, accuracy, seconds_since(start_)));
  leave_out_time();
}

std::vector<NamedTensor> RunLog::history() const {
  const std::vector<double> recent = {static_cast<double>(first_of_epoch_), recent_loss_, recent_accuracy_,
                                      recent_sample_seconds_};
  return {{"losses", from_vector(losses(), {std::ssize(curves_.steps)})},
          {"recent", from_vector(recent, {4})}};
}

void RunLog::restore(const Checkpoint& checkpoint) {
  const std::int64_t steps = checkpoint.position().step;
  const std::vector<double> losses = checkpoint.history("losses", DType::f64, {steps}).to_vector<double>();
  for (const double loss : losses) {
    curves_.steps.push_back({.step = std::ssize(curves_.steps) + 1,
                             .epoch = 0,
                             .rate = std::nan(""),
                             .samples = 0,
                             .loss = loss,
                             .grad_norm = std::nan(""),
                             .correct = -1});
  }
  const std::vector<double> recent = checkpoint.history("recent", DType::f64, {4}).to_vector<double>();
  check(recent[0] >= 0 && recent[0] <= static_cast<double>(steps) && std::trunc(recent[0]) == recent[0],
        "the checkpoint of step {} has an epoch that began after step {}", steps, recent[0]);
  first_of_epoch_ = static_cast<std::size_t>(recent[0]);
  recent_loss_ = recent[1];
  recent_accuracy_ = recent[2];
  recent_sample_seconds_ = recent[3];
}

void RunLog::report(const EvaluationResult& result, std::int64_t steps, std::int64_t skipped) {
  const double seconds = this->seconds();
  const std::string curve = line_chart(losses(), standard_output(), 10);
  if (!curve.empty()) console_.print("\ntraining loss, steps 1 to {}\n{}\n", steps, curve);
  if (counts_correct_) console_.print("test accuracy {:.2f}%, ", result.accuracy * 100);
  const double peak = mebibytes(memory_stats(device_).peak);
  const std::string earlier = first_ > 0 ? fmt::format(" ({} of them before it was resumed)", first_) : "";
  const std::string after = steps > 0 ? fmt::format(" after {}{}", counted(steps, "step"), earlier) : "";
  console_.print("test loss {:.4f}{} in {:.1f} s on {}, {:.1f} MiB at peak\n", result.loss, after, seconds,
                 to_string(device_), peak);
  if (throughput_.units_per_sample != 1 && samples_per_second() > 0) {
    console_.print("{}\n", throughput_.text(samples_per_second()));
  }
  if (skipped > 0) console_.print("{} skipped: the gradients were not finite\n", counted(skipped, "update"));
  Json done{{"event", "done"}};
  if (counts_correct_) done["test_accuracy"] = result.accuracy;
  done["test_loss"] = result.loss;
  done["steps"] = steps;
  done["skipped_updates"] = skipped;
  done["seconds"] = seconds;
  done["device"] = to_string(device_);
  metrics_.write(done);
}

}  // namespace ringtape
