#include "benchmarks/kernels/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "autograd/creation.h"
#include "kernels/pointwise.h"
#include "profile/machine.h"

namespace ringtape::benchmarks {
namespace {

constexpr TimingOptions kTiming{.rounds = 15, .round_seconds = 2e-3};
constexpr double kMostCopied = 512.0 * (1 << 20);

}  // namespace

Table::Table(Device device, const std::string& json)
    : device_(device),
      results_("bench_kernels", device, json),
      from_(randn({static_cast<std::int64_t>(kMostCopied / 8)}, DType::f32, device)),
      to_(zeros(from_.shape(), DType::f32, device)) {
  fmt::print(
      "{}\nlimit: a copy that moves as many bytes, measured in turn with the kernel; medians of {}\n\n",
      describe(device), kTiming.rounds);
  fmt::print("{:<30} {:<18} {:>10} {:>11} {:>11} {:>8} {:>6} {:>11} {:>6}\n", "kernel", "size", "MB",
             "limit us", "us", "GB/s", "ratio", "loop us", "ratio");
}

void Table::copy(double bytes) const {
  const auto n = static_cast<std::int64_t>(std::min(bytes, kMostCopied) / 8);
  scale(stream(), DType::f32, from_.raw(), to_.raw(), std::max<std::int64_t>(n, 1), 1.0);
}

void Table::measure(const KernelWork& work) {
  std::vector<TimedWork> ways = {work.run, [&] { copy(work.bytes); }};
  if (work.loop && device_.is_cpu()) ways.push_back(work.loop);
  const std::vector<double> seconds = median_seconds_in_turn(ways, device_, kTiming);
  const double limit = seconds[1] * std::max(1.0, work.bytes / kMostCopied);
  fmt::print("{:<30} {:<18} {:>10.2f} {:>11.2f} {:>11.2f} {:>8.1f} {:>6.2f}", work.name, work.size,
             work.bytes / 1e6, limit * 1e6, seconds[0] * 1e6, work.bytes / seconds[0] / 1e9,
             seconds[0] / limit);
  Row row{.name = work.name,
          .size = work.size,
          .seconds = seconds[0],
          .flops = work.flops,
          .bytes = work.bytes,
          .limit_seconds = limit};
  if (ways.size() > 2) {
    fmt::print(" {:>11.2f} {:>6.2f}", seconds[2] * 1e6, seconds[0] / seconds[2]);
    row.more["loop_seconds"] = seconds[2];
  }
  fmt::print("\n");
  std::fflush(stdout);
  results_.add(row);
}

}  // namespace ringtape::benchmarks
