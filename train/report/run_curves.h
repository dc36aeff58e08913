#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ringtape {

/// One finished training step, read back from the device.
struct StepRecord {
  std::int64_t step;
  std::int64_t epoch;
  double rate;  ///< the learning rate
  std::int64_t samples;
  std::int64_t targets = 0;  ///< non-ignored targets of the samples
  double bytes_sent = 0;     ///< from this rank to others in the update (MeshTraffic)
  double loss = 0;
  double grad_norm = 0;      ///< NaN if it was not measured
  std::int64_t correct = 0;  ///< correct predictions in the batch; negative if not counted
  double samples_per_second = std::numeric_limits<double>::quiet_NaN();  ///< NaN if it was not measured
};

/// The result of an evaluation after a step.
struct EvaluationPoint {
  std::int64_t step = 0;
  double loss = 0;      ///< mean over the non-ignored targets
  double accuracy = 0;  ///< in [0, 1]; NaN if it was not measured
};

/// The curves of a run.
struct RunCurves {
  /// For steps before a resume only the loss is known: learning rate, gradient norm and throughput are NaN,
  /// the number of correct predictions is negative, and epoch, samples and targets are 0.
  std::vector<StepRecord> steps;
  std::vector<EvaluationPoint> evaluations;
};

/// A text that was made after a step, such as a sample of a language model's text.
struct StepText {
  std::int64_t step = 0;
  std::string title;
  std::string text;
};

}  // namespace ringtape
