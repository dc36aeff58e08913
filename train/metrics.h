#pragma once

#include <vector>

#include "core/tensor.h"
#include "train/report/run_curves.h"

namespace ringtape {

/// Keeps the results of steps on the device and copies them to the host many at a time, so that a step does
/// not wait for its own loss.
class StepLog {
 public:
  explicit StepLog(Device device);
  /// Adds a step. The results are f32 scalars on the device; `grad_norm` and `correct` may be undefined. Must
  /// not be called when is_full().
  void add(const StepRecord& known, const Tensor& loss, const Tensor& grad_norm, const Tensor& correct);
  bool is_full() const;
  bool is_empty() const { return pending_.empty(); }
  /// The steps since the last take(), with their results. Waits for the device.
  std::vector<StepRecord> take();

 private:
  Device device_;
  std::vector<StepRecord> pending_;
  Tensor losses_, grad_norms_, correct_;
};

}  // namespace ringtape
