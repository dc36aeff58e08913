#include "kernels/limits.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

/// Seconds of work that is large enough to be measured.
constexpr double kLongEnough = 0.02;

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

/// Blocks of a launch that keeps the whole device busy.
std::int64_t multiply_add_blocks(Device device) {
  return device.is_cuda() ? 4096 : 64;
}

LimitWork multiply_adds(Device device, std::int64_t blocks) {
  const int threads = device.is_cuda() ? 256 : 1;
  const int rounds = device.is_cuda() ? 1000 : 20000;
  const Tensor out = empty({blocks, threads}, DType::f32, device);
  const auto run = [=] {
    double flops = 0;
    peak_multiply_add(Stream::current(device), static_cast<int>(blocks), threads, rounds,
                      static_cast<float*>(out.raw()), &flops);
    return flops;
  };
  return {[run] { run(); }, run()};
}

LimitWork copy(Device device, std::int64_t bytes) {
  const auto n = bytes / 2 / std::int64_t{sizeof(float)};
  const Tensor from = random_matrix(1, n, DType::f32, device);
  const Tensor to = empty({n}, DType::f32, device);
  // A kernel that reads and writes each element once, and so uses all threads.
  return {[=] { relu_forward(Stream::current(device), DType::f32, from.raw(), to.raw(), n); },
          static_cast<double>(bytes)};
}

LimitWork product(Device device, DType dtype, std::int64_t size) {
  const Tensor a = random_matrix(size, size, dtype, device);
  const Tensor b = random_matrix(size, size, dtype, device);
  const Tensor c = empty({size, size}, DType::f32, device);
  GemmArgs args;
  args.m = args.n = args.k = static_cast<int>(size);
  args.a = a.raw();
  args.b = b.raw();
  args.c = c.raw();
  args.dtype = dtype;
  const auto run = [device, args, keep = std::vector{a, b, c}] { gemm(Stream::current(device), args); };
  return {run, 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size)};
}

double rate_of(const LimitWork& work, Device device) {
  return work.amount / best_seconds(work.run, device, kRounds);
}

/// The rate at the largest of the sizes first, first * factor, ... up to `most`. If the work takes
/// `enough_seconds` at a smaller size, the rate at that size: no machine is too slow to be measured.
template <class WorkOfSize>
double rate_at_large_size(Device device, std::int64_t first, std::int64_t factor, std::int64_t most,
                          double enough_seconds, const WorkOfSize& work_of_size) {
  std::int64_t size = std::min(first, most);
  for (;; size = std::min(size * factor, most)) {
    const LimitWork work = work_of_size(size);
    if (size == most || best_seconds(work.run, device, {.rounds = 3, .round_seconds = 0}) > enough_seconds) {
      return rate_of(work, device);
    }
  }
}

}  // namespace

LimitWork multiply_add_work(Device device) {
  return multiply_adds(device, multiply_add_blocks(device));
}

LimitWork copy_work(Device device, double bytes) {
  return copy(device, static_cast<std::int64_t>(bytes));
}

double large_copy_bytes(Device device) {
  return device.is_cuda() ? 0x1p30 : 0x1p28;
}

double copy_rate(Device device, double bytes) {
  return rate_of(copy_work(device, bytes), device);
}

double peak_flops(Device device, DType dtype) {
  // Memory for the two operands and the result.
  const auto room = static_cast<std::int64_t>(std::sqrt(free_bytes(device) / 2 / (3 * sizeof(float))));
  const std::int64_t most = std::min<std::int64_t>(device.is_cuda() ? 8192 : 1024, room);
  // A product that takes a CPU a millisecond has the rate of larger ones.
  const double enough = device.is_cuda() ? kLongEnough : 1e-3;
  const double products = rate_at_large_size(device, 128, 2, std::max<std::int64_t>(most, 1), enough,
                                             [&](std::int64_t size) { return product(device, dtype, size); });
  const double multiply_add_rate =
      rate_at_large_size(device, 64, 8, multiply_add_blocks(device), kLongEnough,
                         [&](std::int64_t blocks) { return multiply_adds(device, blocks); });
  return std::max(multiply_add_rate, products);
}

MachineLimits measure_limits(Device device, DType dtype) {
  MachineLimits limits;
  limits.memory = memory_capacity(device);
  const double free = free_bytes(device);
  limits.flops_per_second = peak_flops(device, dtype);
  const auto most = static_cast<std::int64_t>(std::min(large_copy_bytes(device), free / 2));
  limits.bytes_per_second = rate_at_large_size(device, 1 << 20, 16, most, kLongEnough,
                                               [&](std::int64_t bytes) { return copy(device, bytes); });
  return limits;
}

}  // namespace ringtape
