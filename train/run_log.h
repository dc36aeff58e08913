#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optim/checkpoint.h"
#include "train/console.h"
#include "train/evaluation.h"
#include "train/json_lines.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/report/run_curves.h"
#include "train/update.h"

namespace ringtape {

/// The speed of training, in units, such as tokens, and in FLOPs.
struct Throughput {
  std::string unit = "samples";
  std::int64_t units_per_sample = 1;
  double flops_per_sample = 0;  ///< 0: unknown
  double peak_flops = 0;        ///< measured peak FLOP/s of all devices together; 0: unknown

  double units_per_second(double samples_per_second) const;
  /// The share of peak_flops that the model's FLOPs take, not counting recomputation (model FLOPs
  /// utilisation, MFU: Chowdhery et al., "PaLM", 2022, appendix B); 0 if it is unknown.
  double utilisation(double samples_per_second) const;
  /// "1234 tokens/s, 31% MFU"; without the MFU if it is unknown.
  std::string text(double samples_per_second) const;
};

/// The output during training: the metrics file, the progress line, a line for each epoch, and at the end the
/// loss curve and the result.
class RunLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// `metrics`: the metrics file; empty for none. `resumed_step`: see JsonLines.
  RunLog(Console console, const std::string& metrics, std::int64_t epochs, Device device, bool counts_correct,
         std::int64_t resumed_step = 0);

  /// Training begins after step `first` of `steps`. Resets the peak of the device's memory. `scaler` is null
  /// without a loss scale; with one, a loss that is not finite does not end training: the update is skipped
  /// and the loss scale lowered.
  void begin(std::int64_t first, std::int64_t steps, const LossScaler* scaler, Throughput throughput = {});
  /// Adds a step. Calls flush() when enough steps are collected: every step on a CPU, 128 on a GPU.
  void add(const StepRecord& known, const UpdateResult& result);
  /// Writes all added steps to the file and the screen. Waits for the device. Throws Error for a target out
  /// of range (if correct predictions are counted), for a run that diverges, and if the loss scale cannot be
  /// lowered further.
  void flush();
  /// Does not count the time since the last flush() as training. Call flush() before the work to leave out.
  void leave_out_time();
  /// Shows a text; the time of making it does not count as training.
  void add(StepText text);
  /// Ends an epoch, with the evaluation of its weights; the time of the evaluation does not count as
  /// training.
  void end_epoch(std::int64_t epoch, const EvaluationResult& result);
  /// Ends the run. `skipped`: the number of updates skipped because a gradient was not finite.
  void report(const EvaluationResult& result, std::int64_t steps, std::int64_t skipped);

  /// All steps written so far, and the evaluation after each epoch.
  const RunCurves& curves() const { return curves_; }
  const std::vector<StepText>& texts() const { return texts_; }
  const Throughput& throughput() const { return throughput_; }
  /// Samples per second since begin(), not counting the time of evaluations, texts and checkpoints; 0 before
  /// the first flush().
  double samples_per_second() const;
  /// Steps before begin().
  std::int64_t first() const { return first_; }
  /// Seconds since begin().
  double seconds() const;

  /// The losses of the steps written so far, for a checkpoint.
  std::vector<NamedTensor> history() const;
  /// Restores the history of a checkpoint. Throws Error if it does not fit the checkpoint's step.
  void restore(const Checkpoint& checkpoint);

 private:
  std::vector<double> losses() const;
  void show(const StepRecord& record, double samples_per_second);

  Console console_;
  std::int64_t epochs_;
  Device device_;
  bool counts_correct_;
  const LossScaler* scaler_ = nullptr;
  std::int64_t first_ = 0;
  StepLog steps_;
  JsonLines metrics_;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_flush_ = start_;
  RunCurves curves_;
  std::vector<StepText> texts_;
  Throughput throughput_;
  double trained_samples_ = 0, trained_seconds_ = 0;
  std::size_t first_of_epoch_ = 0;  // index into curves_.steps
  double recent_loss_ = 0;
  double recent_accuracy_ = 0;
  double recent_sample_seconds_ = 0;
};

}  // namespace ringtape
