// Times the versions of a kernel, from naive to best, beside the vendor's library and what the machine can
// do.
#include <fmt/ranges.h>

#include "apps/command_line.h"
#include "benchmarks/results_json.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/timing.h"
#include "kernels/ladders/trial.h"

namespace {

using namespace ringtape;
using namespace ringtape::benchmarks;

struct Setting {
  std::string ladder;
  std::string device = "auto";
  int version = 0;  // 0: all
  int size = 0;     // 0: the usual one
  std::string json;
};

void measure_rung(Results& results, const ladders::Trial& trial, const std::string& size, int version,
                  double limit, Device device) {
  const Stream stream = Stream::current(device);
  const ladders::Rung& rung = trial.rungs[static_cast<std::size_t>(version) - 1];
  std::vector<TimedWork> ways = {[&] { trial.run(stream, version); }};
  if (trial.vendor) ways.push_back([&] { trial.vendor(stream, version); });
  const double error = error_of(trial, trial.run, stream, version);
  check(error <= 1, "version {} ({}) is wrong: error {} times what rounding allows", version, rung.name,
        error);
  const std::vector<double> both = median_seconds_in_turn(ways, device);
  const double seconds = both.front();
  const double rate = (trial.flops > 0 ? trial.flops : trial.bytes) / seconds * 1e-9;
  fmt::print("{} {:<16} {:>10.3f} {:>10.1f} {:>8.1f}%", version, rung.name, seconds * 1e3, rate,
             100 * limit / seconds);
  Row row{.name = fmt::format("{} {}", version, rung.name),
          .size = size,
          .seconds = seconds,
          .flops = trial.flops,
          .bytes = trial.bytes,
          .limit_seconds = limit};
  if (trial.vendor) {
    row.more["vendor_seconds"] = both.back();
    fmt::print(" {:>8.1f}%", 100 * both.back() / seconds);
  }
  results.add(row);
  fmt::print("  {}\n", rung.adds);
}

void measure(const Setting& setting) {
  const Device device = Device::parse(setting.device);
  const int size = setting.size == 0 ? ladders::sizes_of(setting.ladder).usual : setting.size;
  const ladders::Trial trial = ladders::make_trial(setting.ladder, size, device);
  const int rungs = static_cast<int>(trial.rungs.size());
  check(setting.version >= 0 && setting.version <= rungs, "ladder {} has no version {}: expected 1 to {}",
        setting.ladder, setting.version, rungs);

  const double limit = trial.limit();
  const std::string matrix = fmt::format("{} x {}", size, size);
  Results results("ladder " + setting.ladder, device);
  results.setting("limit", trial.limit_name);
  if (trial.vendor) results.setting("vendor", trial.vendor_name);
  fmt::print("{}\n{} of {}, medians of 7; limit: {}, {:.3f} ms", describe(device), setting.ladder, matrix,
             trial.limit_name, limit * 1e3);
  if (trial.vendor) fmt::print("; vendor: {}", trial.vendor_name);
  fmt::print("\n\n{:<18} {:>10} {:>10} {:>9}{}\n", "version", "ms", trial.flops > 0 ? "GFLOP/s" : "GB/s",
             "of limit", trial.vendor ? " of vendor" : "");
  for (int version = 1; version <= rungs; ++version) {
    if (setting.version == 0 || version == setting.version)
      measure_rung(results, trial, matrix, version, limit, device);
  }
  results.save(setting.json);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times the versions of a kernel, each checked against a reference.\nExample: ladder gemm --size 1024");
  Setting setting;
  app.add_option("ladder", setting.ladder, fmt::format("{}", fmt::join(ladders::names(), ", ")))->required();
  app.add_option("--version", setting.version, "one version; 0 for all")->capture_default_str();
  app.add_option("--size", setting.size, "rows and columns; 0 for the ladder's usual size")
      ->capture_default_str();
  app.add_option("--device", setting.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--json", setting.json, kJsonHelp)->check(apps::file_name_check())->type_name("FILE");
  return apps::run(app, argc, argv, [&] { measure(setting); });
}
