#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/stream.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace ringtape {

/// The times of the same work in seconds, measured several times.
class Times {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }
  double median() const { return ringtape::median(seconds_); }
  double least() const { return *std::min_element(seconds_.begin(), seconds_.end()); }
  double most() const { return *std::max_element(seconds_.begin(), seconds_.end()); }
  /// Sets the row's seconds to the median, and adds "least_seconds" and "most_seconds".
  void add_to(ResultRow& row) const {
    row.seconds = median();
    row.more["least_seconds"] = least();
    row.more["most_seconds"] = most();
  }
  /// "61.2 to 65.7", in milliseconds.
  std::string range_ms(int decimals) const {
    return fmt::format("{0:.{2}f} to {1:.{2}f}", least() * 1e3, most() * 1e3, decimals);
  }

 private:
  std::vector<double> seconds_;
};

/// Times `count` runs of `work`, each by events on the device's current stream, after two runs to warm up.
inline Times times_of(std::int64_t count, Device device, const TimedWork& work) {
  const Stream stream = Stream::current(device);
  Event start(device), stop(device);
  Times times;
  for (std::int64_t i = -2; i < count; ++i) {
    start.record(stream);
    work();
    stop.record(stream);
    const double seconds = stop.elapsed_ms_since(start) * 1e-3;
    if (i >= 0) times.add(seconds);
  }
  return times;
}

}  // namespace ringtape
