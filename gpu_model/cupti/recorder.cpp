#include "gpu_model/cupti/recorder.h"

#include <unistd.h>

#include <chrono>

#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

namespace gpu_model {
namespace {

template <class Clock>
std::int64_t nanoseconds_of() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

CUpti_ActivityMemcpyKind copy_kind(const Operation& copy) {
  switch (copy.direction) {
    case cudaMemcpyHostToHost:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
    case cudaMemcpyHostToDevice:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    case cudaMemcpyDeviceToHost:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    case cudaMemcpyDeviceToDevice:
      return memory_device(copy.reads[0].begin) == memory_device(copy.writes[0].begin)
                 ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD
                 : CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    case cudaMemcpyDefault:
      break;
  }
  return CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN;
}

}  // namespace

ExternalIds& external_ids() {
  thread_local ExternalIds ids;
  return ids;
}

void Recorder::enable(CUpti_ActivityKind kind) {
  {
    const std::lock_guard lock(mutex_);
    const auto client =
        clock_ != nullptr ? static_cast<std::int64_t>(clock_()) : nanoseconds_of<std::chrono::system_clock>();
    shift_ = client - nanoseconds_of<std::chrono::steady_clock>();
    kinds_.insert(kind);
  }
  set_observer(this);
}

void Recorder::disable(CUpti_ActivityKind kind) {
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    is_last = kinds_.erase(kind) == 1 && kinds_.empty();
  }
  if (is_last) set_observer(nullptr);
}

void Recorder::set_clock(CUpti_TimestampCallbackFunc clock) {
  const std::lock_guard lock(mutex_);
  clock_ = clock;
}

// Before the record of a call come the records of the innermost region of each kind that the call is in.
void Recorder::queued(std::uint64_t correlation, const Operation&) {
  const std::lock_guard lock(mutex_);
  if (correlation == last_call_ || !kinds_.contains(CUPTI_ACTIVITY_KIND_RUNTIME)) return;
  last_call_ = correlation;
  const auto call = static_cast<std::uint32_t>(correlation);
  if (kinds_.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
    for (const auto& [kind, ids] : external_ids()) {
      if (ids.empty()) continue;
      buffers.append(CUpti_ActivityExternalCorrelation{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, kind,
                                                       ids.back(), call, 0});
    }
  }
  CUpti_ActivityAPI record{};
  record.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  record.start = record.end = time_of(nanoseconds_of<std::chrono::steady_clock>());
  record.processId = static_cast<std::uint32_t>(getpid());
  record.threadId = static_cast<std::uint32_t>(gettid());
  record.correlationId = call;
  buffers.append(record);
}

template <class Record>
Record Recorder::record_of(const Activity& activity, CUpti_ActivityKind kind) const {
  Record record{};
  record.kind = kind;
  record.start = time_of(activity.start);
  record.end = time_of(activity.end);
  record.deviceId = static_cast<std::uint32_t>(activity.device);
  record.contextId = record.deviceId + 1;
  record.streamId = static_cast<std::uint32_t>(activity.stream);
  record.correlationId = static_cast<std::uint32_t>(activity.correlation);
  if (activity.in_graph) record.graphNodeId = reinterpret_cast<std::uintptr_t>(&activity.operation);
  return record;
}

void Recorder::finished(const Activity& activity) {
  const std::lock_guard lock(mutex_);
  const Operation& operation = activity.operation;
  const auto wants = [&](CUpti_ActivityKind kind) { return kinds_.contains(kind); };
  if (operation.kind == Kind::copy && wants(CUPTI_ACTIVITY_KIND_MEMCPY)) {
    auto record = record_of<CUpti_ActivityMemcpy5>(activity, CUPTI_ACTIVITY_KIND_MEMCPY);
    record.copyKind = static_cast<std::uint8_t>(copy_kind(operation));
    record.bytes = operation.bytes;
    buffers.append(record);
  } else if (operation.kind == Kind::fill && wants(CUPTI_ACTIVITY_KIND_MEMSET)) {
    auto record = record_of<CUpti_ActivityMemset3>(activity, CUPTI_ACTIVITY_KIND_MEMSET);
    record.bytes = operation.bytes;
    buffers.append(record);
  } else if ((operation.kind == Kind::kernel || operation.kind == Kind::collective) &&
             wants(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
    auto record = record_of<CUpti_ActivityKernel9>(activity, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    record.name = keep(operation.entry != nullptr ? symbol_at(operation.entry) : operation.name);
    record.gridX = static_cast<std::int32_t>(operation.grid[0]);
    record.gridY = static_cast<std::int32_t>(operation.grid[1]);
    record.gridZ = static_cast<std::int32_t>(operation.grid[2]);
    record.blockX = static_cast<std::int32_t>(operation.block[0]);
    record.blockY = static_cast<std::int32_t>(operation.block[1]);
    record.blockZ = static_cast<std::int32_t>(operation.block[2]);
    record.dynamicSharedMemory = static_cast<std::int32_t>(operation.shared_bytes);
    buffers.append(record);
  }
}

}  // namespace gpu_model
