#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringtape {

/// Where kernels run.
enum class DeviceType { cpu, cuda };

/// The device that holds a tensor and runs its kernels: `cpu`, or `cuda:N`.
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  /// Parses "cpu", "cuda" (the same as "cuda:0"), "cuda:N", or "auto" (cuda:0 where a GPU is usable, else
  /// cpu). Throws Error for any other text, and for a GPU that is not available.
  static Device parse(std::string_view text);

  bool is_cpu() const { return type == DeviceType::cpu; }
  bool is_cuda() const { return type == DeviceType::cuda; }
  bool operator==(const Device&) const = default;
};

/// The device, or without one the first GPU, or the CPU if there is no GPU.
Device device_or_auto(std::optional<Device> device);

/// "cpu" or "cuda:N".
std::string to_string(Device device);

/// Number of GPUs this process can use; 0 in a build without CUDA and on a machine without a driver.
int cuda_device_count();

/// True if the device multiplies bf16 in hardware: a GPU of compute capability 8.0 or higher, a CPU with
/// AVX-512 BF16 (CPUs with AMX have it too).
bool has_bf16_instructions(Device device);

}  // namespace ringtape
