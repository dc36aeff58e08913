#pragma once

#include <cstddef>
#include <string>

namespace gpu_model {

/// The properties of a kind of GPU.
struct DeviceKind {
  const char* name;       ///< in RINGTAPE_MODEL_GPU
  const char* full_name;  ///< the driver's name
  int major, minor;       ///< compute capability
  int multiprocessors;
  std::size_t memory;                                            ///< bytes
  std::size_t l2_cache;                                          ///< bytes
  int memory_bus;                                                ///< bits
  std::size_t shared_of_multiprocessor, shared_of_block_opt_in;  ///< bytes
};

// The same on all kinds (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr std::size_t kSharedOfBlock = 48 * 1024;  // without opt-in
constexpr int kMaxThreadsOfBlock = 1024;
constexpr unsigned kMaxBlock[3] = {1024, 1024, 64};
constexpr unsigned kMaxGrid[3] = {2147483647, 65535, 65535};
constexpr int kRegistersOfMultiprocessor = 65536;

/// The kind named by RINGTAPE_MODEL_GPU (A100, H100 or H200; default H100). For another name, prints a line
/// on standard error and ends the process.
const DeviceKind& device_kind();
/// RINGTAPE_MODEL_GPUS: the number of devices, by default 1.
int device_count();

}  // namespace gpu_model
