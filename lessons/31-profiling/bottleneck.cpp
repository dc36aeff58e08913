// The work of an update by kind of operation: FLOPs and bytes by formula, and each kind's share of the time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "kernels/limits.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "profile/profile.h"

namespace {

using namespace ringtape;

struct Options {
  std::vector<std::int64_t> widths = {784, 1024, 1024, 10};
  std::int64_t batch = 16, accumulate = 1;
  int steps = 5;
  bool time = false;
};

/// Operations of one name, over an update.
struct Kind {
  SpanWork work;
  double seconds = 0;
};
using Kinds = std::map<std::string, Kind>;

const std::vector<std::string> kNames = {"linear", "linear backward", "optimizer step", "others"};

/// The kind of an operation; a layer with its activation is one operation, "linear_relu".
std::string kind_of(const std::string& name) {
  if (name == "optimizer step") return name;
  if (!name.starts_with("linear")) return "others";
  return name.ends_with("backward") ? "linear backward" : "linear";
}

Kinds kinds_of(const Profile& profile) {
  Kinds kinds;
  for (const ProfileRow& row : profile.rows) {
    Kind& kind = kinds[kind_of(row.name)];
    kind.work += row.work;
    kind.seconds += std::chrono::duration<double>(row.self).count();
  }
  return kinds;
}

/// The kinds of operations of each update but the first, which allocates memory.
std::vector<Kinds> updates_of(const Options& options) {
  manual_seed(0);
  const auto model = make_mlp(options.widths);
  ParameterArena arena(*model, Device());
  Adam adam(arena);
  const Tensor x = randn({options.batch, options.widths.front()});
  const Tensor y = zeros({options.batch}, DType::i64);
  std::vector<Kinds> updates;
  for (int update = 0; update <= options.steps; ++update) {
    SpanRecording recording;
    {
      const SpanScope step(SpanKind::step, "step");
      arena.zero_grad();
      for (std::int64_t i = 0; i < options.accumulate; ++i)
        scale(cross_entropy((*model)(x), y), 1.0 / static_cast<double>(options.accumulate)).backward();
      const SpanScope optimizer(SpanKind::operation, "optimizer step");
      adam.step();
    }
    recording.stop();
    if (update > 0) updates.push_back(kinds_of(make_profile({.spans = recording.spans()})));
  }
  return updates;
}

double of_bytes(const SpanWork& work) {
  return static_cast<double>(work.bytes);
}

void show_work(const Options& options, Kinds kinds) {
  SpanWork all;
  for (const std::string& name : kNames) all += kinds[name].work;
  fmt::print("An update of {} x {} samples through {}, by formula\n", options.accumulate, options.batch,
             fmt::join(options.widths, "-"));
  fmt::print("  {:<16} {:>8} {:>8} {:>14} {:>14}\n", "", "MFLOP", "MB", "FLOPs a byte", "of all bytes");
  const auto print = [&](const std::string& name, const SpanWork& work) {
    const double flops = static_cast<double>(work.flops);
    fmt::print("  {:<16} {:>8.1f} {:>8.1f} {:>14.2f} {:>13.1f}%\n", name, flops / 1e6, of_bytes(work) / 1e6,
               flops / of_bytes(work), 100 * of_bytes(work) / of_bytes(all));
  };
  for (const std::string& name : kNames) print(name, kinds[name].work);
  print("all", all);
}

void show_times(std::vector<Kinds> updates) {
  const MachineLimits limits = measure_limits(Device(), DType::f32);
  fmt::print("\nThis machine: at most {:.1f} FLOPs for each byte that it moves\n",
             limits.flops_per_second / limits.bytes_per_second);
  fmt::print("  {:<16} {:>28} {:>10}\n", "", "share of the time, median", "limit");
  for (const std::string& name : kNames) {
    std::vector<double> shares;
    for (Kinds& kinds : updates) {
      double seconds = 0;
      for (const std::string& each : kNames) seconds += kinds[each].seconds;
      shares.push_back(100 * kinds[name].seconds / seconds);
    }
    std::sort(shares.begin(), shares.end());
    fmt::print(
        "  {:<16} {:>28} {:>10}\n", name,
        fmt::format("{:.0f}% ({:.0f} to {:.0f})", shares[shares.size() / 2], shares.front(), shares.back()),
        limits.is_limited_by_flops(updates[0][name].work) ? "FLOPs" : "bytes");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "The work of an update and its time, by kind of operation.\n"
      "Example: bottleneck --micro-batch 64 --accumulation 4");
  app.option("--mlp", options.widths, "neurons of each layer, the input's first");
  app.option("--micro-batch", between(options.batch, 1, 65536), "samples of a micro-batch");
  app.option("--accumulation", between(options.accumulate, 1, 4096), "micro-batches of an update");
  app.option("--steps", between(options.steps, 1, 1000), "steps to time");
  app.option("--time", options.time, "also measure the time, and the machine's limits");
  return app.run(argc, argv, [&] {
    check(options.widths.size() >= 2, "--mlp: expected at least 2 numbers, found {}", options.widths.size());
    for (const std::int64_t width : options.widths)
      check(width >= 1 && width <= 8192, "--mlp: expected 1 to 8192, found {}", width);
    const std::vector<Kinds> updates = updates_of(options);
    show_work(options, updates[0]);
    if (options.time) show_times(updates);
  });
}
