#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "io/json.h"

namespace ringtape {

/// One finished training step, read back from the device.
struct StepRecord {
  std::int64_t step;
  std::int64_t epoch;
  double rate;  ///< the learning rate
  std::int64_t samples;
  double loss = 0;
  double grad_norm = 0;      ///< NaN when it was not measured
  std::int64_t correct = 0;  ///< correct predictions in the batch; negative when they are not counted
  double samples_per_second = std::numeric_limits<double>::quiet_NaN();  ///< NaN when it was not measured
};

/// Keeps the results of steps on the device and brings them to the host many at a time, so that a step does
/// not wait for its own loss.
class StepLog {
 public:
  explicit StepLog(Device device);
  /// Notes a step; the results are f32 scalars, `grad_norm` and `correct` may be undefined.
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

/// Writes one JSON object a line to a file, or nowhere for an empty path. Throws Error when the file cannot
/// be opened. When it cannot be written later, as on a full disk, that is a warning, and nothing more is
/// written to it. A file that is there is replaced by the first record; a run that fails before leaves
/// it as it was, and no empty file where there was none.
///
/// A run with checkpoints gives the step that it goes on from, 0 at its start. A file that is there then
/// continues behind that step's record, so that no step stands in it twice; when it holds anything else than
/// records, Error is thrown and it stays as it is.
class MetricsFile {
 public:
  explicit MetricsFile(const std::string& path, std::optional<std::int64_t> resumed_step = std::nullopt);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  bool is_open() const { return file_ != nullptr; }
  void write(const Json& object);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
  bool is_new_ = false;           // this run has made the file
  bool has_own_records_ = false;  // what stood in it before is gone, or is continued
  bool is_full_ = false;
};

}  // namespace ringtape
