// The SIMT executor against plain vectorised OpenMP loops that do the same work, and what its parts cost.
#include "benchmarks/bench_simt.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "core/device.h"
#include "core/machine.h"
#include "kernels/simt/fiber.h"

namespace {

using namespace ringtape;
using Work = std::function<void()>;

double seconds_of(const Work& work, int repeats) {
  work();  // wakes OpenMP's threads and warms the cache
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size()) / 2, values.end());
  return values[values.size() / 2];
}

/// Median seconds of both, measured in turns so that a change of the machine's pace meets both alike.
std::pair<double, double> compare(const Work& kernel, const Work& loop) {
  const int repeats = std::max(1, static_cast<int>(2e-3 / seconds_of(loop, 3)));
  std::vector<double> of_kernel, of_loop;
  for (int round = 0; round < 21; ++round) {
    of_kernel.push_back(seconds_of(kernel, repeats));
    of_loop.push_back(seconds_of(loop, repeats));
  }
  return {median(of_kernel), median(of_loop)};
}

void print_row(const char* name, std::int64_t n, double bytes_per_element, double target, const Work& kernel,
               const Work& loop) {
  const auto [of_kernel, of_loop] = compare(kernel, loop);
  const double bytes = bytes_per_element * static_cast<double>(n);
  fmt::print("{:<14} {:>9} {:>9.1f} {:>11.1f} {:>8.1f} {:>11.1f} {:>8.1f} {:>7.2f} {:>7.1f}\n", name, n,
             bytes / 1e6, of_kernel * 1e6, bytes / of_kernel / 1e9, of_loop * 1e6, bytes / of_loop / 1e9,
             of_kernel / of_loop, target);
}

std::vector<float> random_values(std::int64_t n, float low, float high, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = distribution(generator);
  return values;
}

// The loops a kernel is compared with. The result of a reduction goes through memory so that it is not
// dropped.

void loop_relu(const float* x, float* y, std::int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

void loop_axpy(float a, const float* x, float* y, std::int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) y[i] = std::fma(a, x[i], y[i]);
}

void loop_adam(const float* g, float* p, float* m, float* v, std::int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    p[i] -= 1e-3f * m[i] / (std::sqrt(v[i]) + 1e-8f);
  }
}

void loop_sum(const float* x, std::int64_t n, float* total) {
  float sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  *total = sum;
}

void loop_sum_squares(const float* x, std::int64_t n, float* total) {
  float sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  *total = sum;
}

void compare_with_loops(std::int64_t n, double elementwise_target, double reduction_target) {
  const Stream stream = Stream::current({});
  const std::vector<float> x = random_values(n, -1, 1, 1);
  std::vector<float> y = random_values(n, -1, 1, 2), m = random_values(n, -1, 1, 3),
                     v = random_values(n, 0, 1, 4);
  std::vector<float> partial(1024);
  unsigned counter = 0;
  float total = 0;

  print_row(
      "y=max(x,0)", n, 8, elementwise_target, [&] { bench_relu(stream, x.data(), y.data(), n); },
      [&] { loop_relu(x.data(), y.data(), n); });
  print_row(
      "y=a*x+y", n, 12, elementwise_target, [&] { bench_axpy(stream, 1e-6f, x.data(), y.data(), n); },
      [&] { loop_axpy(1e-6f, x.data(), y.data(), n); });
  print_row(
      "Adam", n, 28, elementwise_target,
      [&] { bench_adam(stream, x.data(), y.data(), m.data(), v.data(), n); },
      [&] { loop_adam(x.data(), y.data(), m.data(), v.data(), n); });
  print_row(
      "sum", n, 4, reduction_target,
      [&] { bench_sum(stream, x.data(), n, partial.data(), &counter, &total); },
      [&] { loop_sum(x.data(), n, &total); });
  print_row(
      "sum of squares", n, 4, reduction_target,
      [&] { bench_sum_squares(stream, x.data(), n, partial.data(), &counter, &total); },
      [&] { loop_sum_squares(x.data(), n, &total); });
}

/// Nanoseconds for one switch from a fiber to another.
double fiber_switch_ns() {
  struct Pair {
    simt::Fiber here, there;
  } pair;
  const simt::Stack stack(0);
  pair.there.start(
      stack,
      [](void* argument) {
        Pair& fibers = *static_cast<Pair*>(argument);
        for (;;) simt::Fiber::switch_to(fibers.there, fibers.here);
      },
      &pair);
  std::vector<double> times;
  for (int round = 0; round < 21; ++round) {
    times.push_back(seconds_of([&] { simt::Fiber::switch_to(pair.here, pair.there); }, 20000));
  }
  return median(times) / 2 * 1e9;
}

/// Nanoseconds that one more step costs each thread of a block, on one OS thread.
double step_ns(int threads, const std::function<void(int steps)>& run) {
  constexpr int kFew = 10, kMany = 210;
  std::vector<double> times;
  for (int round = 0; round < 21; ++round) {
    const double few = seconds_of([&] { run(kFew); }, 10);
    times.push_back(seconds_of([&] { run(kMany); }, 10) - few);
  }
  return median(times) / (kMany - kFew) / threads * 1e9;
}

void print_costs() {
  const Stream stream = Stream::current({});
  float out = 0;
  fmt::print("\nfiber switch: {:.1f} ns\n\n", fiber_switch_ns());
  fmt::print("cost per thread (ns)   block of  __syncthreads  __shfl_xor_sync  block_sum\n");
  for (const int threads : {32, 256, 1024}) {
    fmt::print("{:>31} {:>14.1f} {:>16.1f} {:>10.1f}\n", threads,
               step_ns(threads, [&](int steps) { bench_barriers(stream, 1, threads, steps); }),
               step_ns(threads, [&](int steps) { bench_shuffles(stream, 1, threads, steps, &out); }),
               step_ns(threads, [&](int steps) { bench_block_sums(stream, 1, threads, steps, &out); }));
  }
  std::vector<double> times;
  for (int round = 0; round < 21; ++round) {
    times.push_back(seconds_of([&] { bench_barriers(stream, 1, 1, 0); }, 1000));
  }
  fmt::print("\nlaunch of one empty thread: {:.0f} ns", median(times) * 1e9);
  times.clear();
  for (int round = 0; round < 21; ++round) {
    times.push_back(seconds_of([&] { bench_barriers(stream, omp_get_max_threads(), 1, 0); }, 1000));
  }
  fmt::print(", of one on each of {} OS threads: {:.0f} ns\n", omp_get_max_threads(), median(times) * 1e9);
}

}  // namespace

int main() {
  fmt::print("{}\n{} OpenMP threads, medians of 21\n\n", describe(Device{}), omp_get_max_threads());
  fmt::print("{:<14} {:>9} {:>9} {:>11} {:>8} {:>11} {:>8} {:>7} {:>7}\n", "work", "n", "MB", "kernel us",
             "GB/s", "loop us", "GB/s", "ratio", "target");
  compare_with_loops(std::int64_t{1} << 18, 2, 3);
  compare_with_loops(std::int64_t{1} << 25, 1.1, 1.5);
  print_costs();
}
