#include "kernels/ladders/measure.h"

#include <vector>

#include "core/memory.h"
#include "core/tensor.h"
#include "core/timing.h"
#include "kernels/ladders/peak.h"
#include "kernels/relu.h"

namespace ringtape::ladders {

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
