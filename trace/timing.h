#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "core/stream.h"

namespace ringtape {

/// Work to time: queues kernels on the current stream of a device.
using TimedWork = std::function<void()>;

/// Options of the timing functions.
struct TimingOptions {
  int rounds = 7;               ///< number of measurements, at least 1
  double round_seconds = 5e-3;  ///< target time of a round: short work repeats, up to 1000 times; 0: one run
};

/// Work that takes more than this many seconds for a run is measured in at most this many rounds.
inline constexpr double kLongRun = 0.25;
inline constexpr int kRoundsOfLongRuns = 3;

/// Seconds from `start` until now.
double seconds_since(std::chrono::steady_clock::time_point start);

/// The median; for an even number of values the upper of the middle two. Throws Error for no values.
double median(std::vector<double> values);

/// Median seconds of one run of `work`, by events on the device's current stream, after a run to warm up.
/// Throws Error for fewer than 1 round. If one run takes longer than kLongRun, at most kRoundsOfLongRuns are
/// made.
double median_seconds(const TimedWork& work, Device device, const TimingOptions& options = {});

/// The same for several works, a round of each in turn, so that changes of the machine's speed affect all of
/// them. If one of them is long, all have at most kRoundsOfLongRuns.
std::vector<double> median_seconds_in_turn(const std::vector<TimedWork>& works, Device device,
                                           const TimingOptions& options = {});

/// The shortest round instead of the median: the device's own speed, even if other programs use it in most
/// rounds.
double best_seconds(const TimedWork& work, Device device, const TimingOptions& options = {});

}  // namespace ringtape
