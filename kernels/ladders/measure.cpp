#include "kernels/ladders/measure.h"

#include <algorithm>
#include <vector>

#include "core/memory.h"
#include "core/tensor.h"
#include "kernels/ladders/peak.h"
#include "kernels/relu.h"

namespace ringtape::ladders {

double median_seconds(const std::function<void()>& work, Device device, int rounds) {
  const Stream stream = Stream::current(device);
  Event start(device), stop(device);
  const auto run = [&](int repeats) {
    start.record(stream);
    for (int i = 0; i < repeats; ++i) work();
    stop.record(stream);
    return stop.elapsed_ms_since(start) * 1e-3 / repeats;
  };
  work();
  const double once = run(1);
  const int repeats = std::clamp(static_cast<int>(5e-3 / once), 1, 1000);
  if (once > 0.25) rounds = 3;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(run(repeats));
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds) / 2];
}

double peak_flops(Device device) {
  const int blocks = device.is_cuda() ? 4096 : 64;
  const int threads = device.is_cuda() ? 256 : 1;
  const int rounds = device.is_cuda() ? 1000 : 100000;
  const Tensor out = empty({blocks, threads}, DType::f32, device);
  double flops = 0;
  const double seconds = median_seconds(
      [&] {
        peak_multiply_add(Stream::current(device), blocks, threads, rounds, static_cast<float*>(out.raw()),
                          &flops);
      },
      device);
  return flops / seconds;
}

double copy_rate(Device device, double bytes) {
  const auto n = static_cast<std::int64_t>(bytes / 2 / sizeof(float));
  const Tensor from = from_vector(std::vector<float>(static_cast<std::size_t>(n), 1.0f), {n}, device);
  const Tensor to = empty({n}, DType::f32, device);
  // A kernel that reads and writes each element once, and so uses all threads.
  const double seconds = median_seconds(
      [&] { relu_forward(Stream::current(device), DType::f32, from.raw(), to.raw(), n); }, device);
  return bytes / seconds;
}

}  // namespace ringtape::ladders
