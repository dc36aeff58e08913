#include "lessons/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "trace/timing.h"

namespace ringtape::lessons {
namespace {

double seconds_of_slowest(Communicator& comm, const std::function<void()>& way) {
  using Clock = std::chrono::steady_clock;
  comm.barrier();
  const Clock::time_point start = Clock::now();
  way();
  return slowest(comm, Seconds(Clock::now() - start).count());
}

}  // namespace

std::vector<Ratio> time_in_turns(Communicator& comm, const std::vector<std::function<void()>>& ways,
                                 int rounds) {
  for (const auto& way : ways) way();  // warm-up, not timed
  std::vector<std::vector<double>> seconds(ways.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) seconds[i].push_back(seconds_of_slowest(comm, ways[i]));
  }
  const double unit = median(seconds.front());
  std::vector<Ratio> ratios;
  for (const std::vector<double>& of_way : seconds) {
    const auto [lowest, highest] = std::minmax_element(of_way.begin(), of_way.end());
    ratios.push_back({median(of_way) / unit, *lowest / unit, *highest / unit});
  }
  return ratios;
}

double slowest(Communicator& comm, double seconds) {
  const Tensor time = from_vector(std::vector{static_cast<float>(seconds)}, {1});
  comm.all_reduce(time, ReduceOp::max).wait();
  return time.item();
}

std::string text_of(const Ratio& ratio) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", ratio.median, ratio.lowest, ratio.highest);
}

}  // namespace ringtape::lessons
