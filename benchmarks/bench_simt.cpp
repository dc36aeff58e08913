// Times the SIMT executor against plain vectorised OpenMP loops for the same work, and its parts.
#include "benchmarks/bench_simt.h"

#include <fmt/format.h>
#include <omp.h>

#include <cmath>
#include <functional>
#include <tuple>
#include <vector>

#include "autograd/creation.h"
#include "benchmarks/kernels/loops.h"
#include "cli/command_line.h"
#include "kernels/simt/fiber.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;
using kernel_cases::loop_norm;
using kernel_cases::loop_relu;
using kernel_cases::loop_sum;

constexpr TimingOptions kTiming{.rounds = 21, .round_seconds = 2e-3};

/// Compares kernels with loops.
class Comparison {
 public:
  Comparison(Results& results, std::int64_t n, double elementwise_target, double reduction_target)
      : results_(results),
        n_(n),
        elementwise_target_(elementwise_target),
        reduction_target_(reduction_target) {}

  void elementwise(const char* name, double bytes, const TimedWork& kernel, const TimedWork& loop) {
    row(name, bytes, elementwise_target_, kernel, loop);
  }
  void reduction(const char* name, const TimedWork& kernel, const TimedWork& loop) {
    row(name, 4, reduction_target_, kernel, loop);
  }

 private:
  void row(const char* name, double bytes_per_element, double target, const TimedWork& kernel,
           const TimedWork& loop) {
    const std::vector<double> seconds = median_seconds_in_turn({kernel, loop}, {}, kTiming);
    const double bytes = bytes_per_element * static_cast<double>(n_);
    fmt::print("{:<14} {:>9} {:>9.1f} {:>11.1f} {:>8.1f} {:>11.1f} {:>8.1f} {:>7.2f} {:>7.1f}\n", name, n_,
               bytes / 1e6, seconds[0] * 1e6, bytes / seconds[0] / 1e9, seconds[1] * 1e6,
               bytes / seconds[1] / 1e9, seconds[0] / seconds[1], target);
    results_.add({.name = name,
                  .size = fmt::format("{} f32", n_),
                  .seconds = seconds[0],
                  .bytes = bytes,
                  .more = {{"loop_seconds", seconds[1]}, {"target_of_loop", target}}});
  }

  Results& results_;
  std::int64_t n_;
  double elementwise_target_, reduction_target_;
};

// Loops for the comparison, in addition to those in benchmarks/kernels/loops.h.

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

void compare_with_loops(Comparison comparison, std::int64_t n) {
  const Stream stream = Stream::current({});
  const auto random = [&](double low) { return rand({n}, DType::f32, Device{}, low, 1); };
  const Tensor of_x = random(-1), of_y = random(-1), of_m = random(-1), of_v = random(0);
  const float* x = of_x.data<float>();
  float *y = of_y.data<float>(), *m = of_m.data<float>(), *v = of_v.data<float>();
  std::vector<float> partial(1024);
  unsigned counter = 0;
  float total = 0;

  comparison.elementwise(
      "y=max(x,0)", 8, [&] { bench_relu(stream, x, y, n); }, [&] { loop_relu(x, y, n); });
  comparison.elementwise(
      "y=a*x+y", 12, [&] { bench_axpy(stream, 1e-6f, x, y, n); }, [&] { loop_axpy(1e-6f, x, y, n); });
  comparison.elementwise(
      "Adam", 28, [&] { bench_adam(stream, x, y, m, v, n); }, [&] { loop_adam(x, y, m, v, n); });
  comparison.reduction(
      "sum", [&] { bench_sum(stream, x, n, partial.data(), &counter, &total); },
      [&] { loop_sum(x, n, &total); });
  comparison.reduction(
      "sum of squares", [&] { bench_sum_squares(stream, x, n, partial.data(), &counter, &total); },
      [&] { loop_norm(x, n, &total); });
}

/// Seconds of one switch from a fiber to another.
double fiber_switch_seconds() {
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
  constexpr int kSwitches = 1000;
  const auto there_and_back = [&] {
    for (int i = 0; i < kSwitches; ++i) simt::Fiber::switch_to(pair.here, pair.there);
  };
  return median_seconds(there_and_back, {}, kTiming) / (2 * kSwitches);
}

/// The seconds that each thread of a block adds for one more step, on one OS thread.
double step_seconds(int threads, const std::function<void(int steps)>& run) {
  constexpr int kFew = 10, kMany = 210;
  const std::vector<double> seconds =
      median_seconds_in_turn({[&] { run(kFew); }, [&] { run(kMany); }}, {}, kTiming);
  return (seconds[1] - seconds[0]) / (kMany - kFew) / threads;
}

void print_costs(Results& results) {
  const Stream stream = Stream::current({});
  float out = 0;
  const auto measured = [&](const char* name, const std::string& size, double seconds) {
    results.add({.name = name, .size = size, .seconds = seconds});
    return seconds * 1e9;
  };
  fmt::print("\nfiber switch: {:.1f} ns\n\n", measured("fiber switch", "1", fiber_switch_seconds()));
  fmt::print("cost per thread (ns)   block of  __syncthreads  __shfl_xor_sync  block_sum\n");
  for (const int threads : {32, 256, 1024}) {
    const std::string size = fmt::format("block of {}", threads);
    const double barrier =
        step_seconds(threads, [&](int steps) { bench_barriers(stream, 1, threads, steps); });
    const double shuffle =
        step_seconds(threads, [&](int steps) { bench_shuffles(stream, 1, threads, steps, &out); });
    const double block_sum =
        step_seconds(threads, [&](int steps) { bench_block_sums(stream, 1, threads, steps, &out); });
    fmt::print("{:>31} {:>14.1f} {:>16.1f} {:>10.1f}\n", threads,
               measured("__syncthreads, a thread", size, barrier),
               measured("__shfl_xor_sync, a thread", size, shuffle),
               measured("block_sum, a thread", size, block_sum));
  }
  const auto launch_seconds = [&](int blocks) {
    return median_seconds([&] { bench_barriers(stream, blocks, 1, 0); }, {}, kTiming);
  };
  const int os_threads = omp_get_max_threads();
  fmt::print("\nlaunch of one empty thread: {:.0f} ns, of one on each of {} OS threads: {:.0f} ns\n",
             measured("launch", "1 thread", launch_seconds(1)), os_threads,
             measured("launch", "a thread on each OS thread", launch_seconds(os_threads)));
}

void measure(const std::string& json) {
  Results results("bench_simt", Device{}, json);
  fmt::print("{}\n{} OpenMP threads, medians of {}\n\n", describe(Device{}), omp_get_max_threads(),
             kTiming.rounds);
  fmt::print("{:<14} {:>9} {:>9} {:>11} {:>8} {:>11} {:>8} {:>7} {:>7}\n", "work", "n", "MB", "kernel us",
             "GB/s", "loop us", "GB/s", "ratio", "target");
  for (const auto& [n, elementwise, reduction] :
       {std::tuple(std::int64_t{1} << 18, 2.0, 3.0), std::tuple(std::int64_t{1} << 25, 1.1, 1.5)}) {
    compare_with_loops(Comparison(results, n, elementwise, reduction), n);
  }
  print_costs(results);
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times the SIMT executor, against plain vectorised OpenMP loops, and its parts.");
  std::string json;
  app.file("--json", json, kJsonHelp);
  return app.run(argc, argv, [&] { measure(json); });
}
