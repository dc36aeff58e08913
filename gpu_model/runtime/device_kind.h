#pragma once

#include <cstddef>
#include <string>

namespace gpu_model {

/// What the model has to know of a kind of GPU.
struct DeviceKind {
  const char* name;       ///< as RINGTAPE_MODEL_GPU names it
  const char* full_name;  ///< as the driver does
  int major, minor;       ///< compute capability
  int multiprocessors;
  std::size_t memory;                                            ///< bytes
  std::size_t l2_cache;                                          ///< bytes
  int memory_bus;                                                ///< bits
  std::size_t shared_of_multiprocessor, shared_of_block_opt_in;  ///< bytes
};

// The same on all of them (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr std::size_t kSharedOfBlock = 48 * 1024;  // without opt-in
constexpr int kMostThreadsOfBlock = 1024;
constexpr unsigned kMostBlock[3] = {1024, 1024, 64};
constexpr unsigned kMostGrid[3] = {2147483647, 65535, 65535};
constexpr int kRegistersOfMultiprocessor = 65536;

/// The kind that RINGTAPE_MODEL_GPU names (A100, H100 or H200; H100 where it is not set). Ends the process
/// with a line on standard error where it names another.
const DeviceKind& device_kind();
/// RINGTAPE_MODEL_GPUS: how many devices there are, 1 where it is not set.
int device_count();

}  // namespace gpu_model
