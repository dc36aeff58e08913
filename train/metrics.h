#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/tensor.h"

namespace ringtape {

/// One finished training step, read back from the device.
struct StepRecord {
  std::int64_t step;
  std::int64_t epoch;
  double rate;  ///< the learning rate
  std::int64_t samples;
  double bytes_sent = 0;  ///< to other ranks, of this rank's update: MeshTraffic
  double loss = 0;
  double grad_norm = 0;      ///< NaN when it was not measured
  std::int64_t correct = 0;  ///< correct predictions in the batch; negative when they are not counted
  double samples_per_second = std::numeric_limits<double>::quiet_NaN();  ///< NaN when it was not measured
};

/// Keeps the results of steps on the device and copies them to the host many at a time, so that a step does
/// not wait for its own loss.
class StepLog {
 public:
  explicit StepLog(Device device);
  /// Adds a step; the results are f32 scalars, `grad_norm` and `correct` may be undefined.
  void add(const StepRecord& known, const Tensor& loss, const Tensor& grad_norm, const Tensor& correct);
  bool is_full() const;
  bool is_empty() const { return pending_.empty(); }
  /// The steps since the last take(), complete. Waits for the device.
  std::vector<StepRecord> take();

 private:
  Device device_;
  std::vector<StepRecord> pending_;
  Tensor losses_, norms_, correct_;
};

}  // namespace ringtape
