#include "kernels/limits.h"

#include <algorithm>
#include <cmath>

#include "core/memory.h"
#include "core/tensor.h"
#include "kernels/gemm.h"
#include "kernels/peak.h"
#include "kernels/random.h"
#include "kernels/relu.h"

namespace ringtape {
namespace {

/// A limit is the rate of a device that no other program uses: the best of several rounds.
constexpr TimingOptions kRounds{.rounds = 15};

/// Values uniform in [-1, 1).
Tensor random_matrix(std::int64_t rows, std::int64_t columns, DType dtype, Device device) {
  const Tensor matrix = empty({rows, columns}, dtype, device);
  uniform(Stream::current(device), dtype, matrix.raw(), matrix.elements(), -1.0f, 1.0f, std::uint64_t{1},
          std::uint64_t{0});
  return matrix;
}

double free_bytes(Device device) {
  const std::size_t all = memory_capacity(device);
  return static_cast<double>(all - std::min(all, memory_stats(device).live));
}

}  // namespace

LimitWork multiply_add_work(Device device) {
  const int blocks = device.is_cuda() ? 4096 : 64;
  const int threads = device.is_cuda() ? 256 : 1;
  const int rounds = device.is_cuda() ? 1000 : 100000;
  const Tensor out = empty({blocks, threads}, DType::f32, device);
  const auto run = [=] {
    double flops = 0;
    peak_multiply_add(Stream::current(device), blocks, threads, rounds, static_cast<float*>(out.raw()),
                      &flops);
    return flops;
  };
  return {[run] { run(); }, run()};
}

LimitWork copy_work(Device device, double bytes) {
  const auto n = static_cast<std::int64_t>(bytes / 2 / sizeof(float));
  const Tensor from = random_matrix(1, n, DType::f32, device);
  const Tensor to = empty({n}, DType::f32, device);
  // A kernel that reads and writes each element once, and so uses all threads.
  return {[=] { relu_forward(Stream::current(device), DType::f32, from.raw(), to.raw(), n); }, bytes};
}

double large_copy_bytes(Device device) {
  return device.is_cuda() ? 0x1p30 : 0x1p28;
}

double peak_flops(Device device) {
  const LimitWork work = multiply_add_work(device);
  return work.amount / best_seconds(work.run, device, kRounds);
}

double copy_rate(Device device, double bytes) {
  const LimitWork work = copy_work(device, bytes);
  return work.amount / best_seconds(work.run, device, kRounds);
}

double product_rate(Device device, DType dtype, int size) {
  const Tensor a = random_matrix(size, size, dtype, device);
  const Tensor b = random_matrix(size, size, dtype, device);
  const Tensor c = empty({size, size}, DType::f32, device);
  GemmArgs args;
  args.m = args.n = args.k = size;
  args.a = a.raw();
  args.b = b.raw();
  args.c = c.raw();
  args.dtype = dtype;
  const double seconds = best_seconds([&] { gemm(Stream::current(device), args); }, device, kRounds);
  return 2.0 * size * size * size / seconds;
}

double most_flops(Device device, DType dtype) {
  // Memory for the two operands and the result.
  const double most = device.is_cuda() ? 8192 : 1024;
  const int size = static_cast<int>(std::min(most, std::sqrt(free_bytes(device) / 2 / (3 * sizeof(float)))));
  return std::max(peak_flops(device), product_rate(device, dtype, std::max(size, 1)));
}

MachineLimits measure_limits(Device device, DType dtype) {
  MachineLimits limits;
  limits.memory = memory_capacity(device);
  const double free = free_bytes(device);
  limits.flops_per_second = most_flops(device, dtype);
  limits.bytes_per_second = copy_rate(device, std::min(large_copy_bytes(device), free / 2));
  return limits;
}

}  // namespace ringtape
