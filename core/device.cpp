#include "core/device.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "core/cuda_check.h"
#include "core/error.h"

namespace ringtape {

#ifdef RINGTAPE_WITH_CUDA
void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a failed call stays the "last error" until it is read
  fail("CUDA: {} failed: {} ({})", call, cudaGetErrorString(code), cudaGetErrorName(code));
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;  // no driver, or none that this runtime can use
  }
  return count;
}
#else
int cuda_device_count() {
  return 0;
}
#endif

Device Device::parse(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "auto") return cuda_device_count() > 0 ? Device{DeviceType::cuda, 0} : Device{};
  std::string_view number = text == "cuda" ? "0" : "";
  if (text.starts_with("cuda:")) number = text.substr(5);
  int index = -1;
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (error == std::errc::result_out_of_range && number.front() != '-') {
    index = std::numeric_limits<int>::max();  // more digits than an int, and more than there are GPUs
    error = {};
  }
  if (error != std::errc() || end != number.data() + number.size() || index < 0) {
    fail("device '{}' is unknown: expected auto, cpu, cuda or cuda:N", text);
  }
#ifndef RINGTAPE_WITH_CUDA
  fail("device '{}' was requested, but this build has no CUDA kernels: expected cpu", text);
#else
  const int count = cuda_device_count();
  check(index < count, "device '{}' was requested, but this process can use {}: expected {}", text,
        count == 0 ? "no GPU" : fmt::format("only {} GPU(s)", count),
        count == 0 ? "cpu" : fmt::format("cuda:0 to cuda:{}, or cpu", count - 1));
  return {DeviceType::cuda, index};
#endif
}

Device device_or_auto(std::optional<Device> device) {
  return device ? *device : Device::parse("auto");
}

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : fmt::format("cuda:{}", device.index);
}

bool has_bf16_instructions(Device device) {
#ifdef RINGTAPE_WITH_CUDA
  if (device.is_cuda()) {
    int major = 0;
    RINGTAPE_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index));
    return major >= 8;
  }
#endif
#ifdef __x86_64__
  return device.is_cpu() && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace ringtape
