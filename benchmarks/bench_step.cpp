// Times whole training steps of multilayer perceptrons: forward, cross-entropy, backward, gradient-norm
// clipping, Adam; in bf16 and f16 with f32 parameters, f16 with a loss scale. Beside each time is the floor:
// the FLOPs of the matrix products at the rate of a large product of that dtype on this device, plus the
// bytes that Adam and the norm must move at the rate of a copy of that size.
#include <fmt/ranges.h>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "benchmarks/mlp_training.h"
#include "benchmarks/times.h"
#include "cli/command_line.h"
#include "kernels/gemm.h"
#include "kernels/pointwise.h"
#include "nn/compute_dtype.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;

struct Problem {
  std::vector<std::int64_t> sizes;
  std::int64_t batch;
};

const std::vector<Problem> kProblems = {
    {{784, 256, 10}, 64}, {{784, 1024, 1024, 10}, 128}, {{784, 2048, 2048, 10}, 512}};

/// The median of `rounds` runs, each timed separately, as steps are long enough.
TimingOptions single_runs(int rounds) {
  return {.rounds = rounds, .round_seconds = 0};
}

/// FLOPs per second of a large matrix product.
double measure_flops(Device device, DType dtype) {
  const NoGrad no_grad;
  const std::int64_t n = device.is_cpu() ? 2048 : 8192;
  const Tensor a = rand({n, n}, dtype, device, -1, 1);
  const Tensor b = rand({n, n}, dtype, device, -1, 1);
  const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  return 2 * cube / median_seconds([&] { matmul(a, b); }, device, single_runs(5));
}

/// Bytes per second, read and written, of a copy that moves `bytes` bytes: sizes that fit in a cache are
/// faster.
double measure_copy(Device device, double bytes) {
  const auto n = static_cast<std::int64_t>(bytes / 2 / sizeof(float));
  const Tensor from = rand({n}, DType::f32, device);
  const Tensor to = empty({n}, DType::f32, device);
  const Stream stream = Stream::current(device);
  // Ringtape's kernel, as memcpy would use one thread.
  const double seconds = median_seconds([&] { scale(stream, DType::f32, from.raw(), to.raw(), n, 1.5); },
                                        device, single_runs(50));
  return 2.0 * static_cast<double>(from.bytes()) / seconds;
}

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
  // The norm reads every gradient; Adam reads value, gradient and two moments, and writes all except the
  // gradient, and the 16-bit copy.
  const double bytes =
      (dtype == DType::f32 ? 32.0 : 34.0) * static_cast<double>(training.arena().parameter_elements());
  const double copy_rate = measure_copy(device, bytes);
  const double floor = step_flops(problem) / flops_per_second + bytes / copy_rate;
  return {.name = fmt::format("step of {}", fmt::join(problem.sizes, "-")),
          .size = fmt::format("batch {}", problem.batch),
          .seconds = times.median(),
          .flops = step_flops(problem),
          .limit_seconds = floor,
          .more = {{"model", fmt::format("{}", fmt::join(problem.sizes, "-"))},
                   {"batch", problem.batch},
                   {"least_seconds", times.least()},
                   {"most_seconds", times.most()},
                   {"copy_gb_per_s", copy_rate * 1e-9}}};
}

void benchmark(const std::string& device_name, const std::string& dtype_name, const std::string& gemm,
               const std::string& json_path) {
  const Device device = Device::parse(device_name);
  if (gemm != "default") set_gemm_backend(gemm == "own" ? GemmBackend::own : GemmBackend::vendor, device);
  const DType dtype = parse_compute_dtype(dtype_name, device);
  Results results("bench_step", device, json_path);
  const double flops = measure_flops(device, dtype);
  const std::string backend =
      gemm_backend(device) == GemmBackend::own ? "own kernel" : vendor_gemm_name(device);
  results.setting("dtype", name_of(dtype));
  results.setting("gemm", backend);
  results.setting("large_product_gflop_per_s", flops * 1e-9);
  fmt::print("{}: {}\n", to_string(device), describe(device));
  fmt::print("{}, GEMM by {}: {:.0f} GFLOP/s on a large product\n\n", describe_compute_dtype(dtype, device),
             backend, flops * 1e-9);
  fmt::print("{:<20} {:>6} {:>10} {:>18} {:>10} {:>10} {:>10} {:>10} {:>8}\n", "model", "batch", "ms/step",
             "least to most", "GFLOP", "GFLOP/s", "copy GB/s", "floor ms", "x floor");
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
  CommandLine app("Times training steps of multilayer perceptrons against the machine's floor.");
  std::string device = "auto", dtype = "f32", gemm = "default", json;
  app.option("--device", device, "auto, cpu, cuda or cuda:N");
  app.option("--dtype", word(dtype, {"f32", "bf16", "f16", "auto"}), "f32, bf16, f16 or auto");
  app.option("--gemm", word(gemm, {"default", "own", "vendor"}), "default, own or vendor");
  app.file("--json", json, kJsonHelp);
  return app.run(argc, argv, [&] { benchmark(device, dtype, gemm, json); });
}
