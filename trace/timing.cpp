#include "trace/timing.h"

#include <algorithm>

#include "core/error.h"

namespace ringtape {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  check(!values.empty(), "median: expected at least one value, found none");
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

namespace {

/// Seconds of one run in each round, of each work.
std::vector<std::vector<double>> seconds_of_rounds(const std::vector<TimedWork>& works, Device device,
                                                   const TimingOptions& options) {
  check(options.rounds > 0, "timing: {} rounds, expected at least 1", options.rounds);
  constexpr double kMaxRuns = 1000;
  const Stream stream = Stream::current(device);
  Event start(device), stop(device);
  const auto seconds_of_run = [&](const TimedWork& work, int runs) {
    start.record(stream);
    for (int i = 0; i < runs; ++i) work();
    stop.record(stream);
    return stop.elapsed_ms_since(start) * 1e-3 / runs;
  };

  std::vector<int> runs;
  double longest = 0;
  for (const TimedWork& work : works) {
    work();
    const double once = std::max(seconds_of_run(work, 1), 1e-9);
    longest = std::max(longest, once);
    runs.push_back(static_cast<int>(std::clamp(options.round_seconds / once, 1.0, kMaxRuns)));
  }
  const int rounds = longest > kLongRun ? std::min(options.rounds, kRoundsOfLongRuns) : options.rounds;
  std::vector<std::vector<double>> seconds(works.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < works.size(); ++i) seconds[i].push_back(seconds_of_run(works[i], runs[i]));
  }
  return seconds;
}

}  // namespace

std::vector<double> median_seconds_in_turn(const std::vector<TimedWork>& works, Device device,
                                           const TimingOptions& options) {
  std::vector<double> medians;
  for (const std::vector<double>& of_work : seconds_of_rounds(works, device, options))
    medians.push_back(median(of_work));
  return medians;
}

double median_seconds(const TimedWork& work, Device device, const TimingOptions& options) {
  return median_seconds_in_turn({work}, device, options).front();
}

double best_seconds(const TimedWork& work, Device device, const TimingOptions& options) {
  const std::vector<double> seconds = seconds_of_rounds({work}, device, options).front();
  return *std::min_element(seconds.begin(), seconds.end());
}

}  // namespace ringtape
