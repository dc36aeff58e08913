#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

namespace gpu_model {
namespace {

struct Function {
  std::string symbol;
  std::size_t static_shared = 0;
  std::map<int, std::size_t> dynamic_shared;  ///< the opt-in limit, by device
};

/// The properties of the kernel at `entry`; null if it is not a function of this program.
Function* function_of(const void* entry) {
  static auto* const known = new std::map<const void*, Function>;
  const auto [it, is_new] = known->try_emplace(entry);
  if (is_new) it->second = {symbol_at(entry), static_shared_bytes(entry), {}};
  return it->second.symbol.empty() ? nullptr : &it->second;
}

std::size_t max_dynamic_shared(Function& function, int device) {
  const auto opted_in = function.dynamic_shared.find(device);
  const std::size_t without = kSharedOfBlock - std::min(kSharedOfBlock, function.static_shared);
  return opted_in == function.dynamic_shared.end() ? without : std::max(without, opted_in->second);
}

bool within(const Size3& size, const unsigned (&most)[3]) {
  return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= most[0] && size.y <= most[1] &&
         size.z <= most[2];
}

/// A pointer to memory that is allocated, or was.
struct Pointer {
  std::uintptr_t value;
  std::shared_ptr<BlockHistory> allocation;
};

std::vector<Pointer> pointers_in(const KernelCall& call) {
  std::vector<Pointer> found;
  const char* const bytes = static_cast<const char*>(call.arguments());
  for (std::size_t i = 0; i + sizeof(void*) <= call.argument_bytes(); i += sizeof(void*)) {
    const void* value;
    std::memcpy(&value, bytes + i, sizeof value);
    if (auto history = history_at(value); history != nullptr) {
      found.push_back({reinterpret_cast<std::uintptr_t>(value), std::move(history)});
    }
  }
  return found;
}

/// The allocations that pointers among the arguments point to, also freed ones.
std::vector<Range> allocations_in(const KernelCall& call) {
  const std::vector<Pointer> pointers = pointers_in(call);
  std::vector<Range> ranges;
  for (const Pointer& pointer : pointers) {
    const BlockHistory& one = *pointer.allocation;
    // The end of a vector, and an empty part there, is no use of the memory behind it.
    const bool is_end = std::any_of(pointers.begin(), pointers.end(), [&](const Pointer& other) {
      return other.allocation->begin + other.allocation->requested == pointer.value;
    });
    if (is_end && !one.freed.name.empty()) continue;
    const void* const begin = reinterpret_cast<const void*>(one.begin);
    const bool is_known = std::any_of(ranges.begin(), ranges.end(),
                                      [begin](const Range& range) { return range.begin == begin; });
    if (!is_known) ranges.push_back({begin, one.requested});
  }
  return ranges;
}

cudaError_t check_and_queue(const KernelLaunch& launch, const std::shared_ptr<const KernelCall>& call,
                            const void* caller) {
  CUstream_st* const stream = find_stream(launch.stream);
  // "A kernel launch will fail if it is issued to a stream that is not associated to the current device."
  if (stream == nullptr || stream->device != thread_state().device) return cudaErrorInvalidResourceHandle;
  Function* const function = function_of(launch.entry);
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  const std::uint64_t threads = std::uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  if (!within(launch.grid, kMaxGrid) || !within(launch.block, kMaxBlock) || threads > kMaxThreadsOfBlock) {
    return cudaErrorInvalidConfiguration;
  }
  if (launch.shared_bytes > max_dynamic_shared(*function, stream->device)) return cudaErrorInvalidValue;
  Operation operation;
  operation.kind = Kind::kernel;
  operation.name = function_at(launch.entry);
  operation.caller = caller;
  operation.entry = launch.entry;
  operation.grid[0] = launch.grid.x, operation.grid[1] = launch.grid.y, operation.grid[2] = launch.grid.z;
  operation.block[0] = launch.block.x, operation.block[1] = launch.block.y,
  operation.block[2] = launch.block.z;
  operation.shared_bytes = launch.shared_bytes;
  operation.allocations = allocations_in(*call);
  operation.run = [call] {
    call->run();
    return Progress::done;
  };
  NodePtr node;
  return queue(*stream, std::make_shared<const Operation>(std::move(operation)), node);
}

}  // namespace

cudaError_t launch(const KernelLaunch& launch, KernelCall* call) {
  const void* const caller = GPU_MODEL_CALLER;
  const std::shared_ptr<const KernelCall> owned(call);
  return api([&](Lock&) { return check_and_queue(launch, owned, caller); });
}

}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* entry, cudaFuncAttribute attribute, int value) {
  return api([&](Lock&) {
    if (device_count() == 0) return cudaErrorNoDevice;
    Function* const function = function_of(entry);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
      return value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue;
    }
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0) return cudaErrorInvalidValue;
    const auto bytes = static_cast<std::size_t>(value);
    if (bytes + function->static_shared > device_kind().shared_of_block_opt_in) return cudaErrorInvalidValue;
    function->dynamic_shared[open_device(thread_state().device).index] = bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* entry) {
  return api([&](Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    if (device_count() == 0) return cudaErrorNoDevice;
    Function* const function = function_of(entry);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    attributes->sharedSizeBytes = function->static_shared;
    attributes->maxThreadsPerBlock = kMaxThreadsOfBlock;
    attributes->maxDynamicSharedSizeBytes =
        static_cast<int>(max_dynamic_shared(*function, thread_state().device));
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* entry) {
  return api([&](Lock&) {
    if (name == nullptr || entry == nullptr) return cudaErrorInvalidValue;
    const Function* const function = function_of(entry);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    *name = function->symbol.c_str();
    return cudaSuccess;
  });
}
}
