#include "benchmarks/kernels/table.h"

#include <fmt/format.h>

#include <cstdio>

#include "autograd/creation.h"
#include "core/machine.h"
#include "kernels/elementwise.h"

namespace ringtape::benchmarks {
namespace {

constexpr TimingOptions kTiming{.rounds = 21, .round_seconds = 2e-3};

}  // namespace

Table::Table(Device device) : device_(device), results_("bench_kernels", device) {
  const std::int64_t n = device.is_cpu() ? std::int64_t{1} << 26 : std::int64_t{1} << 28;
  const Tensor from = randn({n}, DType::f32, device), to = zeros({n}, DType::f32, device);
  const double seconds =
      median_seconds([&] { scale(stream(), DType::f32, from.raw(), to.raw(), n, 1.0); }, device, kTiming);
  bytes_per_second_ = 2 * static_cast<double>(from.bytes()) / seconds;
  results_.setting("copy_gb_per_s", bytes_per_second_ / 1e9);
  fmt::print("{}\ncopy rate (read and written): {:.1f} GB/s\n\n", describe(device), bytes_per_second_ / 1e9);
  fmt::print("{:<30} {:<18} {:>10} {:>11} {:>11} {:>8} {:>6} {:>11} {:>6}\n", "kernel", "size", "MB",
             "limit us", "us", "GB/s", "ratio", "loop us", "ratio");
}

void Table::measure(const KernelWork& work) {
  std::vector<TimedWork> ways = {work.run};
  if (work.loop && device_.is_cpu()) ways.push_back(work.loop);
  const std::vector<double> seconds = median_seconds_in_turn(ways, device_, kTiming);
  const double limit = work.bytes / bytes_per_second_;
  fmt::print("{:<30} {:<18} {:>10.2f} {:>11.2f} {:>11.2f} {:>8.1f} {:>6.2f}", work.name, work.size,
             work.bytes / 1e6, limit * 1e6, seconds[0] * 1e6, work.bytes / seconds[0] / 1e9,
             seconds[0] / limit);
  Row row{.name = work.name,
          .size = work.size,
          .seconds = seconds[0],
          .flops = work.flops,
          .bytes = work.bytes,
          .limit_seconds = limit};
  if (ways.size() > 1) {
    fmt::print(" {:>11.2f} {:>6.2f}", seconds[1] * 1e6, seconds[0] / seconds[1]);
    row.more["loop_seconds"] = seconds[1];
  }
  fmt::print("\n");
  std::fflush(stdout);
  results_.add(row);
}

}  // namespace ringtape::benchmarks
