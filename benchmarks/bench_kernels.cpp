// Times the kernels of the table in benchmarks/kernels/ for which it has sizes: all but matrix products,
// attention and some variants. Prints the bytes that a kernel must move, the time of a copy of the same
// number of bytes, the kernel's time and the ratio of the two; on the CPU, for some kernels, also the time of
// a plain vectorised OpenMP loop for the same work.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "autograd/creation.h"
#include "benchmarks/kernels/case.h"
#include "benchmarks/kernels/sizes.h"
#include "cli/command_line.h"
#include "kernels/pointwise.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;
using kernel_cases::Case;
using kernel_cases::Measured;
using kernel_cases::Setup;
using kernel_cases::Size;

constexpr TimingOptions kTiming{.rounds = 15, .round_seconds = 2e-3};
constexpr double kMaxCopied = 512.0 * (1 << 20);

/// Measures kernels, and prints a line for each with its time and that of a copy of the same number of bytes,
/// measured alternately.
class Table {
 public:
  Table(Device device, const std::string& json)
      : device_(device),
        results_("bench_kernels", device, json),
        from_(randn({static_cast<std::int64_t>(kMaxCopied / 8)}, DType::f32, device)),
        to_(zeros(from_.shape(), DType::f32, device)) {
    fmt::print(
        "{}\nlimit: a copy of the same number of bytes, measured alternately with the kernel; medians of "
        "{}\n\n",
        describe(device), kTiming.rounds);
    fmt::print("{:<30} {:<18} {:>10} {:>11} {:>11} {:>8} {:>6} {:>11} {:>6}\n", "kernel", "size", "MB",
               "limit us", "us", "GB/s", "ratio", "loop us", "ratio");
  }

  void measure(const Case& kernel, const std::string& size_text, const Size& size) {
    Setup setup(device_);
    kernel.prepare(setup, size);
    const double bytes = kernel.bytes_at(size, device_.is_cuda());
    std::vector<TimedWork> ways = {[&] { setup.launch(Stream::current(device_)); }, [&] { copy(bytes); }};
    if (setup.loop && device_.is_cpu()) ways.push_back(setup.loop);
    const std::vector<double> seconds = median_seconds_in_turn(ways, device_, kTiming);
    ResultRow row{.name = kernel.row.empty() ? kernel.name : kernel.row,
                  .size = size_text,
                  .seconds = seconds[0],
                  .flops = kernel.flops_at(size),
                  .bytes = bytes,
                  .limit_seconds = seconds[1] * std::max(1.0, bytes / kMaxCopied)};
    fmt::print("{:<30} {:<18} {:>10.2f} {:>11.2f} {:>11.2f} {:>8.1f} {:>6.2f}", row.name, row.size,
               bytes / 1e6, *row.limit_seconds * 1e6, seconds[0] * 1e6, bytes / seconds[0] / 1e9,
               seconds[0] / *row.limit_seconds);
    if (ways.size() > 2) {
      fmt::print(" {:>11.2f} {:>6.2f}", seconds[2] * 1e6, seconds[0] / seconds[2]);
      row.more["loop_seconds"] = seconds[2];
    }
    fmt::print("\n");
    std::fflush(stdout);
    results_.add(row);
  }

  void save() const { results_.save(); }

 private:
  /// A copy that moves `bytes` bytes in total, at most 512 MiB.
  void copy(double bytes) const {
    const auto n = static_cast<std::int64_t>(std::min(bytes, kMaxCopied) / 8);
    scale(Stream::current(device_), DType::f32, from_.raw(), to_.raw(), std::max<std::int64_t>(n, 1), 1.0);
  }

  Device device_;
  Results results_;
  Tensor from_, to_;  // of the copy
};

void measure(Device device, const std::string& json) {
  Table table(device, json);
  for (const Measured measured : kernel_cases::kMeasured) {
    for (const auto& [text, size] : kernel_cases::sizes_of(measured, device.is_cuda())) {
      for (const Case& kernel : kernel_cases::cases()) {
        if (kernel.measured == measured) table.measure(kernel, text, size);
      }
    }
  }
  table.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times Ringtape's kernels against the limit of memory bandwidth.");
  std::optional<Device> device;
  std::string json;
  app.option("--device", device, kDeviceHelp);
  app.file("--json", json, kJsonHelp);
  return app.run(argc, argv, [&] { measure(device_or_auto(device), json); });
}
