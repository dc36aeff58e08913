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

/// How fast a training is: units, such as tokens, and FLOPs.
struct Throughput {
  std::string unit = "samples";
  std::int64_t units_per_sample = 1;
  double flops_per_sample = 0;  ///< 0: not known
  double most_flops = 0;        ///< FLOPs a second of all devices, as measured; 0: not known

  double units_per_second(double samples_per_second) const;
  /// The share of most_flops that the samples take, without repeated products (model FLOPs utilisation:
  /// Chowdhery et al., "PaLM", 2022, appendix B); 0 where it is not known.
  double utilisation(double samples_per_second) const;
  /// "1234 tokens/s, 31% MFU"
  std::string text(double samples_per_second) const;
};

/// The output of a running training: the metrics file, the progress line, a line for each epoch, and at the
/// end the loss curve and the result.
class RunLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// `metrics` is this rank's metrics file, or empty. `resumed_step`: see JsonLines.
  RunLog(Console console, const std::string& metrics, std::int64_t epochs, Device device, bool counts_correct,
         std::int64_t resumed_step = 0);

  /// Training begins after step `first` of `steps`; the peak of memory is that from here on. With a `scaler`
  /// (else null) a loss that is not finite does not end the training: the update is skipped and the loss
  /// scale lowered.
  void begin(std::int64_t first, std::int64_t steps, const LossScaler* scaler, Throughput throughput = {});
  /// Adds a step. When there are enough steps, writes them to the file and the screen.
  void add(const StepRecord& known, const UpdateResult& result);
  /// Writes all added steps to the file and the screen. Waits for the device. Throws Error for a label out of
  /// range, for a run that diverges, and if the loss scale cannot be lowered further.
  void flush();
  /// The time since flush(), which must come before, does not count as training.
  void leave_out_time();
  /// Shows a text, and leaves out the time of making it.
  void add(StepText text);
  /// An epoch has ended, with this evaluation of its weights, whose time is left out.
  void end_epoch(std::int64_t epoch, const EvaluationResult& result);
  /// The run has ended. `skipped` of the updates were skipped for a gradient that was not finite.
  void report(const EvaluationResult& result, std::int64_t steps, std::int64_t skipped);

  /// All steps written so far, and the evaluation after each epoch.
  const RunCurves& curves() const { return curves_; }
  const std::vector<StepText>& texts() const { return texts_; }
  const Throughput& throughput() const { return throughput_; }
  /// Samples a second of the steps since begin(), without evaluations, texts and checkpoints; 0 without
  /// steps.
  double samples_per_second() const;
  /// Steps before begin().
  std::int64_t first() const { return first_; }
  /// Since begin().
  double seconds() const;

  /// Saves the steps written so far for a checkpoint, and restores them.
  std::vector<NamedTensor> history() const;
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
