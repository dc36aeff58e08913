// Times the versions of a kernel, from naive to best, beside the vendor's library and what the machine can
// do.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/error.h"
#include "core/machine.h"
#include "core/stream.h"
#include "core/timing.h"
#include "kernels/ladders/trial.h"

namespace {

using namespace ringtape;

struct Setting {
  std::string ladder;
  std::string device = "cpu";
  int version = 0;  // 0: all
  int size = 0;     // 0: the usual one
};

void print_row(const ladders::Trial& trial, int version, double limit, Device device) {
  const Stream stream = Stream::current(device);
  const ladders::Rung& rung = trial.rungs[static_cast<std::size_t>(version) - 1];
  const double seconds = median_seconds([&] { trial.run(stream, version); }, device);
  const double error = trial.error(version);
  check(error <= 1, "version {} ({}) is wrong: error {} times what rounding allows", version, rung.name,
        error);
  const double rate = (trial.flops > 0 ? trial.flops : trial.bytes) / seconds * 1e-9;
  fmt::print("{} {:<16} {:>10.3f} {:>10.1f} {:>8.1f}%", version, rung.name, seconds * 1e3, rate,
             100 * limit / seconds);
  if (trial.vendor) {
    const double vendor = median_seconds([&] { trial.vendor(stream, version); }, device);
    fmt::print(" {:>8.1f}%", 100 * vendor / seconds);
  }
  fmt::print("  {}\n", rung.adds);
}

void run(const Setting& setting) {
  const Device device = Device::parse(setting.device);
  const int size = setting.size == 0 ? ladders::sizes_of(setting.ladder).usual : setting.size;
  const ladders::Trial trial = ladders::make_trial(setting.ladder, size, device);
  const int rungs = static_cast<int>(trial.rungs.size());
  check(setting.version >= 0 && setting.version <= rungs, "ladder {} has no version {}: expected 1 to {}",
        setting.ladder, setting.version, rungs);

  const double limit = trial.limit();
  fmt::print("{}\n{} of {} x {}, medians of 7; limit: {}, {:.3f} ms", describe(device), setting.ladder, size,
             size, trial.limit_name, limit * 1e3);
  if (trial.vendor) fmt::print("; vendor: {}", trial.vendor_name);
  fmt::print("\n\n{:<18} {:>10} {:>10} {:>9}{}\n", "version", "ms", trial.flops > 0 ? "GFLOP/s" : "GB/s",
             "of limit", trial.vendor ? " of vendor" : "");
  for (int version = 1; version <= rungs; ++version) {
    if (setting.version == 0 || version == setting.version) print_row(trial, version, limit, device);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app(
      "Times the versions of a kernel, each checked against a reference.\nExample: ladder gemm --size 1024");
  Setting setting;
  app.add_option("ladder", setting.ladder, "transpose, reduce, norm, softmax or gemm")->required();
  app.add_option("--version", setting.version, "One version; 0 for all")->capture_default_str();
  app.add_option("--size", setting.size, "Rows and columns; 0 for the ladder's usual size")
      ->capture_default_str();
  app.add_option("--device", setting.device, "cpu, cuda or cuda:N")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  run(setting);
} catch (const ringtape::Error& error) {
  fmt::print(stderr, "ladder: {}\n", error.what());
  return 1;
}
