// Times whole training steps of multilayer perceptrons: forward, cross-entropy, backward, gradient-norm
// clipping, Adam; bf16 and f16 have f32 parameters, and f16 a loss scale. Each time is compared with an
// estimate: the FLOPs of the matrix products at the device's limit for that dtype, plus the bytes that Adam
// and the norm must move at the rate of a copy of that size. A step can be faster than the estimate, because
// Adam works in place, and the stores of a copy read their target first.
#include <fmt/ranges.h>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "benchmarks/mlp_training.h"
#include "benchmarks/times.h"
#include "cli/command_line.h"
#include "kernels/gemm.h"
#include "kernels/limits.h"
#include "nn/compute_dtype.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "train/option_types.h"

namespace {

using namespace ringtape;

struct Problem {
  std::vector<std::int64_t> sizes;
  std::int64_t batch;
};

const std::vector<Problem> kProblems = {
    {{784, 256, 10}, 64}, {{784, 1024, 1024, 10}, 128}, {{784, 2048, 2048, 10}, 512}};

/// FLOPs of the matrix products of a step: forward, weight gradients, and input gradients of all layers
/// except the first.
double step_flops(const Problem& problem) {
  double flops = 0;
  for (std::size_t i = 0; i + 1 < problem.sizes.size(); ++i) {
    const double product = 2.0 * static_cast<double>(problem.batch * problem.sizes[i] * problem.sizes[i + 1]);
    flops += product * (i == 0 ? 2 : 3);
  }
  return flops;
}

ResultRow run(const Problem& problem, Device device, DType dtype, double flops_per_second) {
  MlpTraining training(problem.sizes, problem.batch, device, dtype);
  const Times times = times_of(problem.batch > 256 ? 30 : 200, device, [&] { training.update(); });
  // The norm reads every gradient; Adam reads value, gradient and two moments, and writes all but the
  // gradient and, in 16 bits, the copy of the value.
  const double bytes =
      (dtype == DType::f32 ? 32.0 : 34.0) * static_cast<double>(training.arena().parameter_elements());
  const double of_copy = copy_rate(device, bytes);
  ResultRow row{.name = fmt::format("step of {}", fmt::join(problem.sizes, "-")),
                .size = fmt::format("batch {}", problem.batch),
                .flops = step_flops(problem),
                .limit_seconds = step_flops(problem) / flops_per_second + bytes / of_copy,
                .more = {{"model", fmt::format("{}", fmt::join(problem.sizes, "-"))},
                         {"batch", problem.batch},
                         {"copy_gb_per_s", of_copy * 1e-9}}};
  times.add_to(row);
  return row;
}

struct Options {
  std::optional<Device> device;
  std::optional<DType> dtype = DType::f32;
  std::optional<GemmBackend> gemm;
  std::string json;
};

void benchmark(const Options& options) {
  const Device device = device_or_auto(options.device);
  if (options.gemm) set_gemm_backend(*options.gemm, device);
  const DType dtype = options.dtype.value_or(half_dtype(device));
  Results results("bench_step", device, options.json);
  const double flops = peak_flops(device, dtype);
  const std::string backend =
      gemm_backend(device) == GemmBackend::own ? "own kernel" : vendor_gemm_name(device);
  results.setting("dtype", name_of(dtype));
  results.setting("gemm", backend);
  results.setting("limit_gflop_per_s", flops * 1e-9);
  fmt::print("{}: {}\n", to_string(device), describe(device));
  fmt::print("{}, GEMM by {}; limit: {:.0f} GFLOP/s\n\n", describe_compute_dtype(dtype, device), backend,
             flops * 1e-9);
  fmt::print("{:<20} {:>6} {:>10} {:>18} {:>10} {:>10} {:>10} {:>10} {:>8}\n", "model", "batch", "ms/step",
             "least to most", "GFLOP", "GFLOP/s", "copy GB/s", "est. ms", "x est.");
  for (const Problem& problem : kProblems) {
    const ResultRow row = run(problem, device, dtype, flops);
    const std::string range = fmt::format("{:.3f} to {:.3f}", row.more.at("least_seconds").as_double() * 1e3,
                                          row.more.at("most_seconds").as_double() * 1e3);
    fmt::print("{:<20} {:>6} {:>10.3f} {:>18} {:>10.3f} {:>10.0f} {:>10.1f} {:>10.3f} {:>8.2f}\n",
               row.more.at("model").as_string(), problem.batch, *row.seconds * 1e3, range, row.flops * 1e-9,
               row.flops / *row.seconds * 1e-9, row.more.at("copy_gb_per_s").as_double(),
               *row.limit_seconds * 1e3, *row.seconds / *row.limit_seconds);
    results.add(row);
  }
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "Times training steps of multilayer perceptrons against an estimate from the machine's limits.");
  Options options;
  app.option("--device", options.device, kDeviceHelp);
  app.option("--dtype", dtype_value(options.dtype), "f32, bf16, f16 or auto");
  app.option("--gemm", gemm_value(options.gemm), "default, own or vendor");
  app.file("--json", options.json, kJsonHelp);
  return app.run(argc, argv, [&] { benchmark(options); });
}
