#include "train/value_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "io/checksum.h"

namespace ringtape {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// |a - b|; 0 for two NaN, infinite for one.
double distance(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : INFINITY;
  return std::abs(a - b);
}

}  // namespace

Json ValueRow::to_json() const {
  return Json{{"step", step},
              {"micro_batch", micro_batch},
              {"place", place},
              {"operation", operation},
              {"layer", layer},
              {"kind", kind},
              {"shape", Json::Array(shape.begin(), shape.end())},
              {"dtype", dtype},
              {"crc32", crc32},
              {"non_finite", non_finite},
              {"min", min},
              {"max", max},
              {"mean", mean},
              {"samples", Json::Array(samples.begin(), samples.end())}};
}

ValueRow ValueRow::from_json(const Json& json) {
  ValueRow row;
  row.step = json.at("step").as_int64();
  row.micro_batch = json.at("micro_batch").as_int64();
  row.place = json.at("place").as_int64();
  row.operation = json.at("operation").as_string();
  row.layer = json.at("layer").as_string();
  row.kind = json.at("kind").as_string();
  std::vector<std::int64_t> sizes;
  for (const Json& size : json.at("shape").as_array()) sizes.push_back(size.as_int64());
  row.shape = Shape(sizes.data(), sizes.data() + sizes.size());
  row.dtype = json.at("dtype").as_string();
  row.crc32 = static_cast<std::uint32_t>(json.at("crc32").as_uint64());
  row.non_finite = json.at("non_finite").as_int64();
  row.min = json.at("min").as_double();
  row.max = json.at("max").as_double();
  row.mean = json.at("mean").as_double();
  for (const Json& value : json.at("samples").as_array()) {
    row.samples.push_back(value.is_null() ? kNaN : value.as_double());
  }
  return row;
}

void set_values(ValueRow& row, const Tensor& tensor) {
  row.shape = tensor.shape();
  row.dtype = name_of(tensor.dtype());
  const std::vector<double> values = tensor.to_doubles();
  const auto count = static_cast<std::int64_t>(values.size());
  row.crc32 = crc32(0, values.data(), values.size() * sizeof(double));
  row.min = INFINITY;
  row.max = -INFINITY;
  double sum = 0;
  for (double value : values) {
    if (!std::isfinite(value)) {
      ++row.non_finite;
      continue;
    }
    row.min = std::min(row.min, value);
    row.max = std::max(row.max, value);
    sum += value;
  }
  const std::int64_t finite = count - row.non_finite;
  if (finite == 0) row.min = row.max = 0;
  row.mean = finite == 0 ? 0 : sum / static_cast<double>(finite);
  const std::int64_t samples = std::min(count, ValueRow::kMaxSamples);
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t at = samples == count ? i : i * (count - 1) / (samples - 1);
    const double value = values[static_cast<std::size_t>(at)];
    row.samples.push_back(std::isfinite(value) ? value : kNaN);
  }
}

ValueDifference difference_of(const ValueRow& a, const ValueRow& b, double tolerance) {
  check(a.shape == b.shape && a.samples.size() == b.samples.size(),
        "two rows have the shapes {} and {}, and {} and {} samples: expected equal ones", to_string(a.shape),
        to_string(b.shape), a.samples.size(), b.samples.size());
  ValueDifference difference;
  const auto note = [&](double from, double to) {
    difference.largest = std::max(difference.largest, distance(from, to));
  };
  note(a.min, b.min);
  note(a.max, b.max);
  note(a.mean, b.mean);
  for (std::size_t i = 0; i < a.samples.size(); ++i) note(a.samples[i], b.samples[i]);
  if (a.non_finite != b.non_finite) difference.largest = INFINITY;
  const double magnitude = std::max(std::abs(a.min), std::abs(a.max));
  difference.differs = tolerance == 0 ? a.crc32 != b.crc32 : difference.largest > tolerance * magnitude;
  return difference;
}

}  // namespace ringtape
