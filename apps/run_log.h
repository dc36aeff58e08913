#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "apps/metrics.h"
#include "apps/options.h"
#include "apps/progress.h"
#include "apps/update.h"
#include "optim/checkpoint.h"

namespace ringtape::apps {

struct TestResult {
  double loss;
  double accuracy;  ///< NaN for a task without right answers
};

/// What a test found after an update.
struct TestPoint {
  std::int64_t step = 0;
  TestResult result{};
};

/// What a run has been through, for who draws it.
struct RunCurves {
  /// Of steps before the run was resumed the loss alone is known: their rate and norm are NaN, and their
  /// right answers not counted.
  std::vector<StepRecord> steps;
  std::vector<TestPoint> tests;
};

/// What a run tells of itself: the metrics file, the progress line, a line for each epoch, and at the end the
/// loss curve and the result.
class RunLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// `writes_metrics`: this rank writes the metrics file, if one is wanted. `resumed_step`: see MetricsFile.
  RunLog(const TrainOptions& options, Device device, bool counts_correct, bool writes_metrics,
         std::optional<std::int64_t> resumed_step = std::nullopt);

  /// Training begins after update `first` of `updates`. With a `scaler` (else null) a loss that is not finite
  /// does not end it: the update is skipped and the loss scale lowered.
  void begin(std::int64_t first, std::int64_t updates, const LossScaler* scaler);
  /// Notes an update. When there are enough of them, brings them to the file and the screen.
  void add(const StepRecord& known, const UpdateResult& result);
  /// Brings all that were noted to the file and the screen. Waits for the device. Throws Error for a label
  /// out of range, for a run that diverges, and where the scaler cannot go on.
  void flush();
  /// An epoch has ended, with this test of its weights.
  void end_epoch(std::int64_t epoch, const TestResult& result);
  /// The run has ended. `skipped` of the updates were skipped for a gradient that was not finite.
  void report(const TestResult& result, std::int64_t updates, std::int64_t skipped);

  /// All steps shown so far, and the test after each epoch.
  const RunCurves& curves() const { return curves_; }
  /// Steps before begin().
  std::int64_t first() const { return first_; }
  /// Since begin().
  double seconds() const;

  /// What a checkpoint keeps of the steps shown so far, and its return.
  std::vector<NamedTensor> history() const;
  void restore(const Checkpoint& checkpoint);

 private:
  std::vector<double> losses() const;
  void show(const StepRecord& record, double samples_per_second);

  const TrainOptions& options_;
  Device device_;
  bool counts_correct_;
  const LossScaler* scaler_ = nullptr;
  std::int64_t first_ = 0;
  StepLog steps_;
  MetricsFile metrics_;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_flush_ = start_;
  RunCurves curves_;
  std::size_t first_of_epoch_ = 0;  // index into curves_.steps
  double recent_loss_ = 0;
  double recent_accuracy_ = 0;
  double recent_sample_seconds_ = 0;
};

}  // namespace ringtape::apps
