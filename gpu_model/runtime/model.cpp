#include "gpu_model/include/gpu_model/model.h"

#include <cstring>
#include <utility>

#include "gpu_model/runtime/capture.h"
#include "gpu_model/runtime/state.h"
#include "gpu_model/runtime/symbols.h"

namespace gpu_model {

void set_schedule(Schedule schedule, std::uint64_t seed) {
  const Lock lock(state().mutex);
  follow(state(), schedule, seed);
}

Schedule schedule() {
  const Lock lock(state().mutex);
  return state().schedule;
}

int contexts_opened() {
  const Lock lock(state().mutex);
  return state().contexts;
}

int host_waits() {
  const Lock lock(state().mutex);
  return state().host_waits;
}

namespace {

template <class Body>
void for_each_allocation(const Body& body) {
  for (const auto& device : state().devices) {
    if (device->pool == nullptr) continue;
    for (const auto& [address, block] : device->pool->blocks()) {
      if (!block.is_free && (!block.in_graph || block.is_launched)) body(device->index, *block.history);
    }
  }
}

}  // namespace

std::vector<std::string> live_objects() {
  const Lock lock(state().mutex);
  std::vector<std::string> lines;
  const auto add = [&](const std::string& what, const void* caller) {
    lines.push_back(what + " in " + place_of(caller));
  };
  for_each_allocation([&](int device, const BlockHistory& allocation) {
    add("#" + std::to_string(allocation.number) + ": " + std::to_string(allocation.requested) +
            " bytes on device " + std::to_string(device) + ", " + allocation.function,
        allocation.caller);
  });
  for (const auto& [address, pinned] : state().pinned.allocations())
    add(std::to_string(pinned.bytes) + " bytes of pinned memory, cudaMallocHost", pinned.caller);
  for (const auto& [handle, stream] : state().streams)
    add("stream " + std::to_string(stream->number) + " of device " + std::to_string(stream->device) +
            ", cudaStreamCreate",
        stream->caller);
  for (const auto& [handle, event] : state().events)
    add("event of device " + std::to_string(event->device) + ", cudaEventCreate", event->caller);
  for_each_graph(add);
  return lines;
}

std::size_t live_bytes() {
  const Lock lock(state().mutex);
  std::size_t bytes = 0;
  for_each_allocation([&](int, const BlockHistory& allocation) { bytes += allocation.requested; });
  return bytes;
}

void fail_allocation(int number) {
  const Lock lock(state().mutex);
  state().allocations_until_failure = number;
}

// AddressSanitizer would refuse freed memory, which a test may look at.
__attribute__((no_sanitize("address"))) void peek(void* to, const void* device_address, std::size_t bytes) {
  const Lock lock(state().mutex);
  open_device_memory();
  const auto* const from = static_cast<const volatile unsigned char*>(device_address);
  for (std::size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(to)[i] = from[i];
  close_device_memory();
}

ReportHandler set_report_handler(ReportHandler handler) {
  const Lock lock(state().mutex);
  return std::exchange(state().report_handler, handler);
}

int reports() {
  const Lock lock(state().mutex);
  return state().reports;
}

void forgive_sticky_errors() {
  const Lock lock(state().mutex);
  for (const auto& device : state().devices) device->sticky = cudaSuccess;
}

}  // namespace gpu_model
