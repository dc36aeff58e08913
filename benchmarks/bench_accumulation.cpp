// Measures the cost and savings of gradient accumulation and activation recomputation: memory by category at
// the peak of an update, beside the formula; throughput for 1 to 32 micro-batches at one global batch; memory
// and time for segments of several lengths.
#include <fmt/ranges.h>

#include "benchmarks/mlp_training.h"
#include "benchmarks/times.h"
#include "cli/command_line.h"
#include "core/numbers.h"
#include "io/file.h"
#include "nn/memory_estimate.h"
#include "optim/accumulation.h"
#include "profile/machine.h"
#include "profile/memory_report.h"
#include "profile/result_file.h"

namespace {

using namespace ringtape;
using Sizes = std::vector<std::int64_t>;

/// An MLP with `layers` hidden layers of `width` between MNIST's inputs and classes.
Sizes deep(std::int64_t layers, std::int64_t width) {
  Sizes sizes(static_cast<std::size_t>(layers), width);
  sizes.insert(sizes.begin(), 784);
  sizes.push_back(10);
  return sizes;
}

/// Training with several micro-batches in an update.
class Training {
 public:
  Training(const Sizes& sizes, std::int64_t micro_batch, std::int64_t recompute, Device device)
      : problem_{.sizes = sizes, .micro_batch = micro_batch, .recompute = recompute},
        training_(sizes, micro_batch, device) {
    set_recompute(recompute);
  }

  void set_recompute(std::int64_t layers) { training_.model().set_recompute(2 * layers); }

  void update(std::int64_t steps) {
    AccumulationWindow window;
    window.begin(steps * problem_.micro_batch);
    training_.update(steps, {.reduction = Reduction::sum, .divisor = window.divisor()});
  }

  /// Memory at the peak of an update.
  BytesByCategory peak(std::int64_t steps) {
    update(steps);  // one-time allocations
    reset_peak_memory(device());
    update(steps);
    return memory_stats(device()).peak_by_category;
  }
  BytesByCategory formula() const { return estimate_memory(problem_); }

  /// The times of updates.
  Times times(std::int64_t steps, int repeats) {
    return times_of(repeats, device(), [&] { update(steps); });
  }

 private:
  Device device() const { return training_.arena().device(); }

  MlpMemoryProblem problem_;
  MlpTraining training_;
};

std::string name_of(const Sizes& sizes) {
  return fmt::format("{}", fmt::join(sizes, "-"));
}

/// The memory of one model for several divisions of a batch into micro-batches.
void memory_of_batches(Results& results, const Sizes& sizes, Device device) {
  using enum MemoryCategory;
  struct Way {
    std::int64_t micro_batch, steps;
  };
  fmt::print("Memory at the peak of an update of {}, Adam, MiB\n\n", name_of(sizes));
  fmt::print("{:>14} {:>10} {:>9} {:>9} {:>11} {:>11} {:>7} {:>7} {:>8} {:>8}\n", "batch", "parameters",
             "gradients", "Adam", "activations", "their grads", "data", "other", "total", "formula");
  for (const auto& [micro_batch, steps] : {Way{20, 1}, Way{10, 8}, Way{20, 4}, Way{80, 1}}) {
    Training training(sizes, micro_batch, 0, device);
    const BytesByCategory at_peak = training.peak(steps);
    const std::size_t rest = at_peak[other] + at_peak[workspace];
    const std::string batch = steps == 1
                                  ? fmt::format("{} at once", micro_batch)
                                  : fmt::format("{} as {} x {}", micro_batch * steps, steps, micro_batch);
    fmt::print("{:>14} {:>10.3f} {:>9.3f} {:>9.3f} {:>11.4f} {:>11.4f} {:>7.4f} {:>7.4f} {:>8.3f} {:>8.3f}\n",
               batch, mebibytes(at_peak[parameters]), mebibytes(at_peak[gradients]),
               mebibytes(at_peak[optimizer_state]), mebibytes(at_peak[activations]),
               mebibytes(at_peak[activation_gradients]), mebibytes(at_peak[data]), mebibytes(rest),
               mebibytes(at_peak.total()), mebibytes(training.formula().total()));
    ResultRow row{.name = fmt::format("memory of {}", name_of(sizes)), .size = batch};
    for (std::size_t i = 0; i < kMemoryCategories; ++i) {
      row.more[fmt::format("{} bytes", ringtape::name_of(static_cast<MemoryCategory>(i)))] = at_peak.bytes[i];
    }
    row.more["peak_bytes"] = at_peak.total();
    row.more["formula_bytes"] = training.formula().total();
    results.add(row);
  }
  fmt::print("\n");
}

/// Memory over time during two updates, the second with recomputation; also as a picture if `svg_path` is
/// given.
void timeline(std::int64_t layers, std::int64_t width, std::int64_t micro_batch, std::int64_t steps,
              std::int64_t recompute, Device device, const std::string& svg_path) {
  const Sizes sizes = deep(layers, width);
  Training training(sizes, micro_batch, 0, device);
  training.update(steps);
  MemoryRecording recording(device);
  training.update(steps);
  training.set_recompute(recompute);
  training.update(steps);
  recording.stop();
  fmt::print(
      "Memory while {} hidden layers of {} are trained in {} micro-batches of {}: an update that keeps\n"
      "all activations, and one with recomputation in segments of {} layers\n\n{}\n",
      layers, width, steps, micro_batch, recompute, memory_timeline(recording, 36));
  if (!svg_path.empty()) save_text(svg_path, memory_svg(recording));
}

void throughput_of_steps(Results& results, const Sizes& sizes, std::int64_t batch, int repeats,
                         Device device) {
  fmt::print("Throughput of {} at a global batch of {}\n\n", name_of(sizes), batch);
  fmt::print("{:>6} {:>12} {:>12} {:>18} {:>12} {:>10} {:>10}\n", "steps", "micro-batch", "ms/update",
             "least to most", "samples/s", "relative", "peak MiB");
  double at_once = 0;
  for (std::int64_t steps = 1; steps <= 32; steps *= 2) {
    Training training(sizes, batch / steps, 0, device);
    const Times times = training.times(steps, repeats);
    const double seconds = times.median();
    if (steps == 1) at_once = seconds;
    const std::size_t peak = training.peak(steps).total();
    const double rate = static_cast<double>(batch) / seconds;
    fmt::print("{:>6} {:>12} {:>12.3f} {:>18} {:>12.0f} {:>10.3f} {:>10.2f}\n", steps, batch / steps,
               seconds * 1e3, times.range_ms(3), rate, at_once / seconds, mebibytes(peak));
    ResultRow row{.name = fmt::format("update of {}", name_of(sizes)),
                  .size = fmt::format("batch {} as {} x {}", batch, steps, batch / steps),
                  .more = {{"samples_per_s", rate}, {"peak_bytes", peak}}};
    times.add_to(row);
    results.add(row);
  }
  fmt::print("\n");
}

void recomputation(Results& results, std::int64_t layers, std::int64_t width, std::int64_t batch, int repeats,
                   Device device) {
  using enum MemoryCategory;
  const Sizes sizes = deep(layers, width);
  fmt::print("Recomputation: {} hidden layers of {}, batch {}\n\n", layers, width, batch);
  fmt::print("{:>18} {:>16} {:>10} {:>10} {:>12} {:>18} {:>10}\n", "layers a segment", "activations and",
             "by formula", "peak MiB", "ms/update", "least to most", "relative");
  fmt::print("{:>18} {:>16}\n", "", "their grads, MiB");
  double kept = 0;
  for (std::int64_t segment : {0, 1, 2, 4, 8, 16}) {
    Training training(sizes, batch, segment, device);
    const Times times = training.times(1, repeats);
    const double seconds = times.median();
    if (segment == 0) kept = seconds;
    const BytesByCategory at_peak = training.peak(1), formula = training.formula();
    const std::size_t passing = at_peak[activations] + at_peak[activation_gradients];
    const std::size_t expected = formula[activations] + formula[activation_gradients];
    fmt::print("{:>18} {:>16.2f} {:>10.2f} {:>10.2f} {:>12.3f} {:>18} {:>10.3f}\n",
               segment == 0 ? "everything kept" : fmt::format("{}", segment), mebibytes(passing),
               mebibytes(expected), mebibytes(at_peak.total()), seconds * 1e3, times.range_ms(3),
               seconds / kept);
    ResultRow row{
        .name = fmt::format("update of {} hidden layers of {}, batch {}", layers, width, batch),
        .size = segment == 0 ? "everything kept" : fmt::format("segments of {}", segment),
        .more = {
            {"activation_bytes", passing}, {"formula_bytes", expected}, {"peak_bytes", at_peak.total()}}};
    times.add_to(row);
    results.add(row);
  }
}

void benchmark(Device device, const std::string& json_path, const std::string& svg_path) {
  Results results("bench_accumulation", device, json_path);
  const bool is_cpu = device.is_cpu();
  fmt::print("{}: {}\n\n", to_string(device), describe(device));
  memory_of_batches(results, {784, 256, 10}, device);
  memory_of_batches(results, {784, 2048, 2048, 10}, device);
  timeline(16, 256, 1024, 2, 4, device, svg_path);
  throughput_of_steps(results, {784, 2048, 2048, 10}, is_cpu ? 512 : 4096, 15, device);
  throughput_of_steps(results, {784, 256, 10}, is_cpu ? 512 : 4096, 60, device);
  recomputation(results, 16, 512, is_cpu ? 512 : 8192, 15, device);
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Measures memory and time of gradient accumulation and of activation recomputation.");
  std::optional<Device> device;
  std::string json, svg;
  app.option("--device", device, kDeviceHelp);
  app.file("--json", json, kJsonHelp);
  app.option("--svg", format_file_value(svg, {".svg"}), "also draw the memory of two updates to this file");
  return app.run(argc, argv, [&] { benchmark(device_or_auto(device), json, svg); });
}
