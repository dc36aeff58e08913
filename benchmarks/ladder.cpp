// Times the rungs of a ladder, the versions of a kernel from naive to best, against the vendor's library and
// the machine's limit.
#include <fmt/ranges.h>

#include "cli/command_line.h"
#include "core/error.h"
#include "core/numbers.h"
#include "kernels/ladders/ladders.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;

struct Setting {
  std::string ladder;
  std::optional<Device> device;
  int rung = 0;  // 0: all
  int size = 0;  // 0: the default
  std::string json;
};

/// Times a rung, the limit and the vendor's routine alternately, and prints a line.
void measure_rung(Results& results, const ladders::Trial& trial, const LimitWork& limit,
                  const Setting& setting, int version, Device device) {
  const Stream stream = Stream::current(device);
  const ladders::Rung& rung = trial.rungs[static_cast<std::size_t>(version) - 1];
  const double error = error_of(trial, trial.run, stream, version);
  check(error <= 1, "rung {} ({}) computes a wrong result: the error is {} times the rounding error allowed",
        version, rung.name, error);
  std::vector<TimedWork> ways = {[&] { trial.run(stream, version); }, limit.run};
  if (trial.vendor) ways.push_back([&] { trial.vendor(stream, version); });
  const std::vector<double> seconds = median_seconds_in_turn(ways, device);
  const double needed = trial.flops > 0 ? trial.flops : trial.bytes;
  ResultRow row{.name = fmt::format("{} {}", version, rung.name),
                .size = fmt::format("{0} x {0}", setting.size),
                .seconds = seconds[0],
                .flops = trial.flops,
                .bytes = trial.flops > 0 ? 0 : trial.bytes,
                .limit_seconds = needed / limit.amount * seconds[1]};
  row.more["inputs"] = name_of(rung.inputs);
  const auto percent = [&](double other) { return short_number(100 * other / seconds[0]) + '%'; };
  fmt::print("{} {:<16} {:>10} {:>10} {:>9}", version, rung.name, time_text(seconds[0]),
             short_number(needed / seconds[0] * 1e-9), percent(*row.limit_seconds));
  if (trial.vendor) {
    row.more["vendor_seconds"] = seconds[2];
    fmt::print(" {:>10}", percent(seconds[2]));
  }
  fmt::print("  {}\n", rung.adds);
  std::fflush(stdout);
  results.add(row);
}

void measure(Setting setting) {
  const Device device = device_or_auto(setting.device);
  if (setting.size == 0) setting.size = ladders::sizes_of(setting.ladder).usual;
  Results results("ladder " + setting.ladder, device, setting.json);
  const ladders::Trial trial = ladders::make_trial(setting.ladder, setting.size, device);
  const int rungs = static_cast<int>(trial.rungs.size());
  ladders::check_rung(setting.ladder, trial, setting.rung);

  results.setting("limit", trial.limit_name);
  if (trial.vendor) results.setting("vendor", trial.vendor_name);
  fmt::print("{}\n{} of {} x {}, medians of {} rounds, {} where one takes {} or more\n", describe(device),
             setting.ladder, setting.size, setting.size, TimingOptions{}.rounds, kRoundsOfLongRuns,
             time_text(kLongRun));
  fmt::print("limit, measured alternately with each: {}", trial.limit_name);
  if (trial.vendor) fmt::print("; vendor: {}", trial.vendor_name);
  fmt::print("\n\n{:<18} {:>10} {:>10} {:>9}{}\n", "rung", "time", trial.flops > 0 ? "GFLOP/s" : "GB/s",
             "of limit", trial.vendor ? "  of vendor" : "");
  const LimitWork limit = trial.limit();
  for (int version = 1; version <= rungs; ++version) {
    if (setting.rung == 0 || version == setting.rung)
      measure_rung(results, trial, limit, setting, version, device);
  }
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "Times the versions of a kernel, each checked against a reference.\nExample: ladder gemm --size 1024");
  Setting setting;
  app.option("ladder", setting.ladder, fmt::format("{}", fmt::join(ladders::names(), ", "))).required();
  app.option("--rung", setting.rung, "one rung; 0: all");
  app.option("--size", setting.size, "rows and columns; 0: the ladder's default size");
  app.option("--device", setting.device, kDeviceHelp);
  app.file("--json", setting.json, kJsonHelp);
  return app.run(argc, argv, [&] { measure(setting); });
}
