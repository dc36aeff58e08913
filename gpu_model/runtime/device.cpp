#include <cuda_profiler_api.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/fault.h"

namespace gpu_model {
namespace {

void read_schedule(State& of) {
  const char* const text = std::getenv("RINGTAPE_MODEL_SCHEDULE");
  if (text == nullptr || std::strcmp(text, "order") == 0) return;
  if (std::strcmp(text, "late") == 0) return follow(of, Schedule::late, 0);
  if (std::strcmp(text, "early") == 0) return follow(of, Schedule::early, 0);
  constexpr char kRandom[] = "random:";
  const char* const digits = text + sizeof kRandom - 1;
  if (std::strncmp(text, kRandom, sizeof kRandom - 1) == 0 && *digits >= '0' && *digits <= '9') {
    char* end = nullptr;
    errno = 0;
    const unsigned long long seed = std::strtoull(digits, &end, 10);
    if (errno == 0 && *end == 0) return follow(of, Schedule::random, seed);
  }
  std::fprintf(stderr, "gpu model: RINGTAPE_MODEL_SCHEDULE=%s: expected order, late, early or random:SEED\n",
               text);
  std::_Exit(2);
}

/// A number from 1 on; 0 where the variable is not set.
int read_number(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return 0;
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (end == text || *end != 0 || number < 1 || number > std::numeric_limits<int>::max()) {
    std::fprintf(stderr, "gpu model: %s=%s: expected a number from 1 on\n", variable, text);
    std::_Exit(2);
  }
  return static_cast<int>(number);
}

constexpr int kExitAfterReports = 66;

void fail_at_exit_after_reports() {
  std::atexit([] {
    if (!state().has_printed_reports) return;
    std::fprintf(stderr, "gpu model: ended with status %d because of its reports\n", kExitAfterReports);
    std::fflush(nullptr);
    std::_Exit(kExitAfterReports);
  });
}

/// What RINGTAPE_MODEL_LEAKS asks for at the end of the process.
void list_leaks_at_exit() {
  const char* const text = std::getenv("RINGTAPE_MODEL_LEAKS");
  if (text == nullptr) return;
  static bool is_error = false;
  is_error = std::strcmp(text, "error") == 0;
  if (!is_error && std::strcmp(text, "list") != 0) {
    std::fprintf(stderr, "gpu model: RINGTAPE_MODEL_LEAKS=%s: expected list or error\n", text);
    std::_Exit(2);
  }
  std::atexit([] {
    for (const std::string& line : live_objects()) {
      if (is_error) {
        report("not released: " + line);
      } else {
        std::fprintf(stderr, "gpu model: not released: %s\n", line.c_str());
      }
    }
  });
}

State* make_state() {
  auto* const made = new State;
  for (int i = 0; i < device_count(); ++i) {
    made->devices.push_back(std::make_unique<Device>());
    made->devices.back()->index = i;
  }
  read_schedule(*made);
  made->allocations_until_failure = read_number("RINGTAPE_MODEL_OOM");
  fail_at_exit_after_reports();  // called last: exit handlers run in the reverse order
  list_leaks_at_exit();
  return made;
}

bool exists(int device) {
  return device >= 0 && device < device_count();
}

}  // namespace

State& state() {
  static State* const all = make_state();
  return *all;
}

Device& open_device(int index) {
  Device& device = *state().devices[static_cast<std::size_t>(index)];
  if (device.space == nullptr) {
    close_device_memory();  // the new memory too is closed
    device.space = std::make_unique<MemorySpace>(device_kind().memory);
    device.pool = std::make_unique<CUmemPoolHandle_st>(index, *device.space, device_kind().memory);
    ++state().contexts;
    watch_for_faults();
  }
  return device;
}

int current_device() {
  return thread_state().device;
}

}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return note(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  return cudaRuntimeGetVersion(version);
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return note(cudaErrorInvalidValue);
  *count = device_count();
  return *count == 0 ? note(cudaErrorNoDevice) : cudaSuccess;
}

/// Also creates the device's context, since CUDA 12.0.
cudaError_t cudaSetDevice(int device) {
  return query_api([&] {
    if (device_count() == 0) return cudaErrorNoDevice;
    if (!exists(device)) return cudaErrorInvalidDevice;
    thread_state().device = device;
    return open_device(device).sticky;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return query_api([&] {
    if (device == nullptr) return cudaErrorInvalidValue;
    if (device_count() == 0) return cudaErrorNoDevice;
    *device = thread_state().device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return query_api([&] {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!exists(device)) return cudaErrorInvalidDevice;
    const DeviceKind& kind = device_kind();
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "%s (model)", kind.full_name);
    properties->totalGlobalMem = kind.memory;
    properties->sharedMemPerBlock = kSharedOfBlock;
    properties->regsPerBlock = properties->regsPerMultiprocessor = kRegistersOfMultiprocessor;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = kMaxThreadsOfBlock;
    for (int i = 0; i < 3; ++i) {
      properties->maxThreadsDim[i] = static_cast<int>(kMaxBlock[i]);
      properties->maxGridSize[i] = static_cast<int>(kMaxGrid[i]);
    }
    properties->totalConstMem = 64 * 1024;
    properties->major = kind.major;
    properties->minor = kind.minor;
    properties->multiProcessorCount = kind.multiprocessors;
    properties->pciBusID = device;
    properties->memoryBusWidth = kind.memory_bus;
    properties->l2CacheSize = static_cast<int>(kind.l2_cache);
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->sharedMemPerMultiprocessor = kind.shared_of_multiprocessor;
    properties->sharedMemPerBlockOptin = kind.shared_of_block_opt_in;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return query_api([&] {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!exists(device)) return cudaErrorInvalidDevice;
    const DeviceKind& kind = device_kind();
    switch (attribute) {
      case cudaDevAttrMaxThreadsPerBlock:
        *value = kMaxThreadsOfBlock;
        break;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = static_cast<int>(kSharedOfBlock);
        break;
      case cudaDevAttrWarpSize:
        *value = 32;
        break;
      case cudaDevAttrMultiProcessorCount:
        *value = kind.multiprocessors;
        break;
      case cudaDevAttrL2CacheSize:
        *value = static_cast<int>(kind.l2_cache);
        break;
      case cudaDevAttrComputeCapabilityMajor:
        *value = kind.major;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = kind.minor;
        break;
      case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = static_cast<int>(kind.shared_of_multiprocessor);
        break;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(kind.shared_of_block_opt_in);
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

/// There is no profiler to start.
cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}
cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}
}
