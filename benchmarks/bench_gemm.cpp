// Ringtape's own GEMM against the vendor's, on the three products of a linear layer and on squares.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <random>
#include <vector>

#include "core/error.h"
#include "core/half.h"
#include "core/machine.h"
#include "core/tensor.h"
#include "kernels/gemm.h"

namespace {

using namespace ringtape;

struct Shape3 {
  const char* name;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  double beta;
};

/// Y = X W^T + b, dX = dY W and dW += dY^T X for `rows` rows.
void add_layer(std::vector<Shape3>& shapes, std::int64_t rows, std::int64_t in, std::int64_t out) {
  shapes.push_back({"Y = X W^T + b", rows, out, in, false, true, 0});
  shapes.push_back({"dX = dY W", rows, in, out, false, false, 0});
  shapes.push_back({"dW += dY^T X", out, in, rows, true, false, 1});
}

Tensor random_tensor(std::int64_t elements, DType dtype, Device device) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto fill = [&](auto convert) {
    std::vector<decltype(convert(0.0f))> values(static_cast<std::size_t>(elements));
    for (auto& value : values) value = convert(uniform(engine));
    return from_vector(values, {elements}, device);
  };
  if (dtype == DType::bf16) return fill([](float v) { return on_cpu::to_bfloat16(v); });
  if (dtype == DType::f16) return fill([](float v) { return on_cpu::to_float16(v); });
  return fill([](float v) { return v; });
}

/// Median seconds of one multiplication over 21 rounds, each long enough to be timed well.
double seconds_of(GemmBackend backend, const GemmArgs& args, Device device) {
  set_gemm_backend(backend, device);
  const Stream stream = Stream::current(device);
  Event start(device), stop(device);
  const auto run = [&](int repeats) {
    start.record(stream);
    for (int i = 0; i < repeats; ++i) gemm(stream, args);
    stop.record(stream);
    return stop.elapsed_ms_since(start) * 1e-3 / repeats;
  };
  run(2);
  const int repeats = std::clamp(static_cast<int>(3e-3 / run(3)), 1, 1000);
  std::vector<double> times;
  for (int round = 0; round < 21; ++round) times.push_back(run(repeats));
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10];
}

void print_row(const Shape3& shape, DType dtype, Device device) {
  const Tensor a = random_tensor(shape.m * shape.k, dtype, device);
  const Tensor b = random_tensor(shape.k * shape.n, dtype, device);
  const Tensor c = random_tensor(shape.m * shape.n, DType::f32, device);
  const Tensor bias = random_tensor(shape.n, DType::f32, device);
  GemmArgs args;
  args.m = shape.m;
  args.n = shape.n;
  args.k = shape.k;
  args.a = a.raw();
  args.b = b.raw();
  args.c = c.raw();
  args.transpose_a = shape.transpose_a;
  args.transpose_b = shape.transpose_b;
  args.dtype = dtype;
  args.beta = shape.beta;
  args.bias = shape.transpose_b ? bias.raw() : nullptr;

  const double flops =
      2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  const double own = seconds_of(GemmBackend::own, args, device);
  fmt::print("{:<15} {:>6} {:>6} {:>6} {:>10.2f} {:>11.1f} {:>9.1f}", shape.name, shape.m, shape.n, shape.k,
             flops * 1e-6, own * 1e6, flops / own * 1e-9);
  if (vendor_gemm_name(device) != "none") {
    const double vendor = seconds_of(GemmBackend::vendor, args, device);
    fmt::print(" {:>11.1f} {:>9.1f} {:>8.1f}%", vendor * 1e6, flops / vendor * 1e-9, 100 * vendor / own);
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) try {
  std::string device_name = "cpu";
  std::string dtype_name = "f32";
  CLI::App app("Own GEMM against the vendor's");
  app.add_option("--device", device_name, "cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--dtype", dtype_name, "Inputs: f32, bf16 or f16; sums and result are f32")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Device device = Device::parse(device_name);
  const DType dtype = dtype_from_name(dtype_name.c_str());

  std::vector<Shape3> shapes;
  add_layer(shapes, 64, 784, 256);
  add_layer(shapes, 64, 256, 10);
  add_layer(shapes, 128, 784, 1024);
  add_layer(shapes, 128, 1024, 1024);
  add_layer(shapes, 128, 1024, 10);
  add_layer(shapes, 512, 784, 2048);
  add_layer(shapes, 512, 2048, 2048);
  add_layer(shapes, 512, 2048, 10);
  if (device.is_cuda()) add_layer(shapes, 8192, 4096, 4096);
  for (const std::int64_t size : {512, 1024, 2048, 4096, 8192}) {
    if (device.is_cuda() || size <= 1024) shapes.push_back({"C = A B", size, size, size, false, false, 0});
  }

  fmt::print("{}\n{} inputs, f32 sums; vendor: {}; medians of 21\n\n", describe(device), dtype_name,
             vendor_gemm_name(device));
  fmt::print("{:<15} {:>6} {:>6} {:>6} {:>10} {:>11} {:>9} {:>11} {:>9} {:>9}\n", "product", "m", "n", "k",
             "MFLOP", "own us", "GFLOP/s", "vendor us", "GFLOP/s", "of vendor");
  for (const Shape3& shape : shapes) print_row(shape, dtype, device);
} catch (const ringtape::Error& error) {
  fmt::print(stderr, "bench_gemm: {}\n", error.what());
  return 1;
}
