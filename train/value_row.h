#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "io/json.h"

namespace ringtape {

/// The record that --record-values writes of one tensor: its place in the run, a hash of all its values, and
/// enough of them to say how far two runs are apart. A line of the file is one row as a JSON object.
struct ValueRow {
  /// The largest number of values that a row holds: all of a tensor with no more of them, else some at equal
  /// distances, the first and the last among them.
  static constexpr std::int64_t kMostSamples = 64;

  std::int64_t step = 0;         ///< counted from 1
  std::int64_t micro_batch = 0;  ///< of the step, counted from 0; -1 for a parameter
  std::int64_t place = 0;  ///< the operation's number on the tape; of a parameter: its number in the model
  std::string operation;   ///< "linear"; of a parameter: its name
  std::string layer;       ///< path of the operation's layer, or empty
  /// "output" and "gradient" (of the output) of an operation; "value" (before the update) and "gradient" (as
  /// the update uses it, before clipping) of a parameter.
  std::string kind;
  Shape shape;
  std::string dtype;
  std::uint32_t crc32 = 0;  ///< of the values as f64
  std::int64_t non_finite = 0;
  double min = 0, max = 0, mean = 0;  ///< of the finite values; 0 without one
  std::vector<double> samples;        ///< NaN for one that is not finite

  Json to_json() const;
  /// Throws Error for anything but such an object.
  static ValueRow from_json(const Json& json);
};

/// Fills shape, dtype, hash and statistics of a row. Waits for the device.
void set_values(ValueRow& row, const Tensor& tensor);

/// How far two rows are apart.
struct ValueDifference {
  bool differs = false;
  double largest =
      0;  ///< of the samples, and of min, max and mean; infinite if their non-finite values differ
};

/// With `tolerance` 0 rows differ if their hashes do; otherwise if the largest difference is more than the
/// tolerance times the largest magnitude in `a`. The shapes must be equal.
ValueDifference difference_of(const ValueRow& a, const ValueRow& b, double tolerance);

}  // namespace ringtape
