// Times Ringtape's own GEMM and the vendor's on the three products of linear layers and on square matrices.
#include <fmt/format.h>

#include <vector>

#include "autograd/creation.h"
#include "cli/command_line.h"
#include "kernels/gemm.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;

constexpr int kRounds = 21;

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

/// A product of random matrices.
class Product {
 public:
  Product(const Shape3& shape, DType dtype, Device device)
      : shape_(shape),
        dtype_(dtype),
        device_(device),
        a_(rand({shape.m * shape.k}, dtype, device, -1, 1)),
        b_(rand({shape.k * shape.n}, dtype, device, -1, 1)),
        c_(rand({shape.m * shape.n}, DType::f32, device, -1, 1)),
        bias_(rand({shape.n}, DType::f32, device, -1, 1)) {
    args_.m = shape.m;
    args_.n = shape.n;
    args_.k = shape.k;
    args_.a = a_.raw();
    args_.b = b_.raw();
    args_.c = c_.raw();
    args_.transpose_a = shape.transpose_a;
    args_.transpose_b = shape.transpose_b;
    args_.dtype = dtype;
    args_.beta = shape.beta;
    args_.bias = shape.transpose_b ? bias_.raw() : nullptr;
  }

  void run(GemmBackend backend) const {
    set_gemm_backend(backend, device_);
    gemm(Stream::current(device_), args_);
  }
  double flops() const {
    return 2.0 * static_cast<double>(shape_.m) * static_cast<double>(shape_.n) *
           static_cast<double>(shape_.k);
  }
  double bytes() const {
    const double of_c = static_cast<double>(c_.bytes()) * (shape_.beta == 0 ? 1 : 2);
    return static_cast<double>(a_.bytes() + b_.bytes()) + of_c;
  }
  std::string size() const {
    return fmt::format("{} x {} x {} {}", shape_.m, shape_.n, shape_.k, name_of(dtype_));
  }

 private:
  Shape3 shape_;
  DType dtype_;
  Device device_;
  Tensor a_, b_, c_, bias_;
  GemmArgs args_;
};

void measure_product(Results& results, const Shape3& shape, DType dtype, Device device) {
  const Product product(shape, dtype, device);
  std::vector<TimedWork> ways = {[&] { product.run(GemmBackend::own); }};
  if (vendor_gemm_name(device) != "none") ways.push_back([&] { product.run(GemmBackend::vendor); });
  const std::vector<double> seconds =
      median_seconds_in_turn(ways, device, {.rounds = kRounds, .round_seconds = 3e-3});
  fmt::print("{:<15} {:>6} {:>6} {:>6} {:>10.2f} {:>11.1f} {:>9.1f}", shape.name, shape.m, shape.n, shape.k,
             product.flops() * 1e-6, seconds[0] * 1e6, product.flops() / seconds[0] * 1e-9);
  if (ways.size() > 1) {
    fmt::print(" {:>11.1f} {:>9.1f} {:>8.1f}%", seconds[1] * 1e6, product.flops() / seconds[1] * 1e-9,
               100 * seconds[1] / seconds[0]);
  }
  fmt::print("\n");
  for (std::size_t way = 0; way < ways.size(); ++way) {
    results.add({.name = fmt::format("{}: {}", way == 0 ? "own" : "vendor", shape.name),
                 .size = product.size(),
                 .seconds = seconds[way],
                 .flops = product.flops(),
                 .bytes = product.bytes()});
  }
}

std::vector<Shape3> all_shapes(Device device) {
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
  return shapes;
}

void measure(Device device, DType dtype, const std::string& json) {
  Results results("bench_gemm", device, json);
  results.setting("dtype", name_of(dtype));
  results.setting("vendor", vendor_gemm_name(device));
  fmt::print("{}\n{} inputs, f32 sums; vendor: {}; medians of {}\n\n", describe(device), name_of(dtype),
             vendor_gemm_name(device), kRounds);
  fmt::print("{:<15} {:>6} {:>6} {:>6} {:>10} {:>11} {:>9} {:>11} {:>9} {:>9}\n", "product", "m", "n", "k",
             "MFLOP", "own us", "GFLOP/s", "vendor us", "GFLOP/s", "of vendor");
  for (const Shape3& shape : all_shapes(device)) measure_product(results, shape, dtype, device);
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times Ringtape's own GEMM beside the vendor's.");
  std::optional<Device> device;
  DType dtype = DType::f32;
  std::string json;
  app.option("--device", device, kDeviceHelp);
  app.option("--dtype", dtype_value(dtype), "dtype of the inputs; sums and result are f32");
  app.file("--json", json, kJsonHelp);
  return app.run(argc, argv, [&] { measure(device_or_auto(device), dtype, json); });
}
