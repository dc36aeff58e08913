#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "io/json.h"

namespace ringtape {

/// The record of one tensor in the file of --record-values: its place in the run, a hash of all its values,
/// and enough of them to tell how far two runs are apart. A line of the file is one row as a JSON object.
struct ValueRow {
  /// The largest number of values in a row. A tensor with more values is sampled at about equal distances,
  /// including its first and last value.
  static constexpr std::int64_t kMaxSamples = 64;

  std::int64_t step = 0;         ///< counted from 1
  std::int64_t micro_batch = 0;  ///< of the step, counted from 0; -1 for a parameter
  std::int64_t place = 0;  ///< the operation's number on the tape; for a parameter, its number in the model
  std::string operation;   ///< "linear"; for a parameter, its name
  std::string layer;       ///< path of the operation's layer, or empty
  /// For an operation, "output" or "gradient" (of the output); for a parameter, "value" (before the update)
  /// or "gradient" (before clipping and, in f16, times the loss scale).
  std::string kind;
  Shape shape;
  std::string dtype;
  std::uint32_t crc32 = 0;  ///< of the values as f64
  std::int64_t non_finite = 0;
  double min = 0, max = 0, mean = 0;  ///< of the finite values; 0 if there are none
  std::vector<double> samples;        ///< NaN for a value that is not finite

  Json to_json() const;
  /// Throws Error for any other JSON.
  static ValueRow from_json(const Json& json);
};

/// Fills shape, dtype, hash and statistics of a row. Waits for the device.
void set_values(ValueRow& row, const Tensor& tensor);

/// The difference between two rows.
struct ValueDifference {
  bool differs = false;
  double largest =
      0;  ///< of the samples, and of min, max and mean; infinite if their non-finite values differ
};

/// With `tolerance` 0, rows differ if their hashes do; otherwise, if the largest difference is more than the
/// tolerance times the largest magnitude of a finite value in `a`. Throws Error for different shapes.
ValueDifference difference_of(const ValueRow& a, const ValueRow& b, double tolerance);

}  // namespace ringtape
