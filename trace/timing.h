#pragma once

#include <functional>
#include <vector>

#include "core/stream.h"

namespace ringtape {

/// Work to be timed: queues kernels on the current stream of a device.
using TimedWork = std::function<void()>;

/// How work is timed.
struct TimingOptions {
  int rounds = 7;               ///< times it is measured; the median counts
  double round_seconds = 5e-3;  ///< of a round at least, by running short work again and again; 0: run once
};

/// Seconds of one run from which on work is long, and the rounds that are made of it at most.
inline constexpr double kLongRun = 0.25;
inline constexpr int kRoundsOfLongRuns = 3;

/// The value in the middle of those in order; of an even number the upper of the two. Throws Error for none.
double median(std::vector<double> values);

/// Median seconds of one run of `work`, by events on the device's current stream, after a run to warm up.
/// Where one run takes longer than kLongRun, kRoundsOfLongRuns are made at most.
double median_seconds(const TimedWork& work, Device device, const TimingOptions& options = {});

/// The same for several works, a round of each in turn: a machine whose pace changes is the same for all.
std::vector<double> median_seconds_in_turn(const std::vector<TimedWork>& works, Device device,
                                           const TimingOptions& options = {});

/// The shortest round instead of the median: what the device can do, though others use it in most rounds.
double best_seconds(const TimedWork& work, Device device, const TimingOptions& options = {});

}  // namespace ringtape
