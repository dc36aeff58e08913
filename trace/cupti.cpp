// DeviceRecording by CUPTI's activity records (NVIDIA, CUPTI documentation, "CUPTI Activity API").
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "trace/device_activity.h"

#ifdef RINGTAPE_WITH_CUPTI
#include <cupti.h>

#include "core/cuda_check.h"
#endif

namespace ringtape {

#ifdef RINGTAPE_WITH_CUPTI
namespace {

/// CUPTI aligns records to 8 bytes and advises buffers of 1 to 10 MiB.
constexpr std::size_t kAlignment = 8, kBufferBytes = 4 << 20;
constexpr auto kSpanIds = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
/// A span's id belongs to the record of a call, not to the records of the work that the call queues, so calls
/// are recorded too. Libraries may call the driver without the runtime.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};

/// The records received so far. CUPTI delivers them from its own thread, some of them late.
struct Inbox {
  std::mutex mutex;
  bool is_open = false;
  DeviceRecords records;

  void open() {
    const std::lock_guard lock(mutex);
    records = {};
    is_open = true;
  }
  DeviceRecords close() {
    const std::lock_guard lock(mutex);
    is_open = false;
    return std::move(records);
  }
};
Inbox& inbox() {
  static Inbox* const box = new Inbox;  // records may come while the process ends
  return *box;
}

std::atomic<bool> is_recording = false;
CUpti_SubscriberHandle subscriber = nullptr;

std::string text_of(CUptiResult code) {
  const char* text = nullptr;
  return cuptiGetResultString(code, &text) == CUPTI_SUCCESS ? text
                                                            : fmt::format("code {}", static_cast<int>(code));
}

void check_cupti(CUptiResult code, const char* call) {
  check(code == CUPTI_SUCCESS, "CUPTI: {} failed: {}", call, text_of(code));
}

SpanClock::time_point time_of(std::uint64_t nanoseconds) {
  return SpanClock::time_point(std::chrono::nanoseconds(nanoseconds));
}

std::uint64_t CUPTIAPI now() {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(SpanClock::now().time_since_epoch()).count());
}

const char* name_of_copy(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy device to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "copy GPU to GPU";
    default:
      return "copy";
  }
}

/// The members common to the three kinds of records.
template <typename Record>
DeviceActivity activity_of(const Record& record, DeviceWork work, std::string name) {
  DeviceActivity activity;
  activity.work = work;
  activity.name = std::move(name);
  activity.begin = time_of(record.start);
  activity.end = time_of(record.end);
  activity.stream = record.streamId;
  activity.graph_node = record.graphNodeId;
  activity.call = record.correlationId;
  return activity;
}

DeviceActivity activity_of(const CUpti_ActivityKernel9& kernel) {
  DeviceActivity activity = activity_of(kernel, DeviceWork::kernel, kernel_name(kernel.name));
  activity.grid = {kernel.gridX, kernel.gridY, kernel.gridZ};
  activity.block = {kernel.blockX, kernel.blockY, kernel.blockZ};
  return activity;
}

/// The activity of a copy or memset.
template <typename Record>
DeviceActivity activity_with_bytes(const Record& record, DeviceWork work, const char* name) {
  DeviceActivity activity = activity_of(record, work, name);
  activity.bytes = static_cast<std::int64_t>(record.bytes);
  return activity;
}

/// CUDA 12.0 has these structures; newer versions append members to them.
void take(const CUpti_Activity& record, DeviceRecords& records) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    records.activities.push_back(activity_of(reinterpret_cast<const CUpti_ActivityKernel9&>(record)));
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy5&>(record);
    records.activities.push_back(activity_with_bytes(copy, DeviceWork::copy, name_of_copy(copy.copyKind)));
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& set = reinterpret_cast<const CUpti_ActivityMemset3&>(record);
    records.activities.push_back(activity_with_bytes(set, DeviceWork::memset, "memset"));
  } else if (record.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    const auto& both = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
    if (both.externalKind == kSpanIds) records.span_of_call[both.correlationId] = both.externalId;
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // 0: as many as fit
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t valid_bytes) {
  Inbox& box = inbox();
  const std::lock_guard lock(box.mutex);
  CUpti_Activity* record = nullptr;
  while (box.is_open && cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    take(*record, box.records);
  }
  std::size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) box.records.lost += lost;
  std::free(buffer);
}

void CUPTIAPI ignore_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

/// Only once in a process: after a second registration the first kernels have times of another clock.
void use_clock_of_spans() {
  static const bool is_registered = [] {
    check_cupti(cuptiActivityRegisterTimestampCallback(now), "cuptiActivityRegisterTimestampCallback");
    check_cupti(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
    return true;
  }();
  static_cast<void>(is_registered);
}

void stop_cupti() {
  for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
  cuptiUnsubscribe(subscriber);
}

void start_cupti() {
  use_clock_of_spans();
  const CUptiResult code = cuptiSubscribe(&subscriber, ignore_callback, nullptr);
  check(code != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
        "another profiler is attached, such as Nsight");
  check_cupti(code, "cuptiSubscribe");
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult enabled = cuptiActivityEnable(kind);
    if (enabled != CUPTI_SUCCESS) stop_cupti();
    check_cupti(enabled, "cuptiActivityEnable");
  }
}

}  // namespace

DeviceRecording::DeviceRecording(Device device) : device_(device) {
  check(!is_recording.exchange(true), "device activities: a recording is running already");
  inbox().open();
  try {
    start_cupti();
    is_running_ = true;
  } catch (const Error& error) {
    activities_.missing = error.what();
    is_recording = false;
  }
}

DeviceRecording::~DeviceRecording() {
  if (!is_running_) return;
  stop_cupti();
  inbox().close();
  is_recording = false;
}

void DeviceRecording::stop() {
  if (!is_running_) return;
  RINGTAPE_CUDA(cudaSetDevice(device_.index));
  RINGTAPE_CUDA(cudaDeviceSynchronize());
  check_cupti(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  stop_cupti();
  activities_ = resolve(inbox().close(), begin_, SpanClock::now());
  is_running_ = false;
  is_recording = false;
}

bool is_recording_device() {
  return is_recording.load(std::memory_order_relaxed);
}
void enter_device_span(std::uint64_t id) {
  cuptiActivityPushExternalCorrelationId(kSpanIds, id);
}
void leave_device_span() {
  cuptiActivityPopExternalCorrelationId(kSpanIds, nullptr);
}

#else

DeviceRecording::DeviceRecording(Device device) : device_(device), activities_{{}, "built without CUPTI"} {}
DeviceRecording::~DeviceRecording() = default;
void DeviceRecording::stop() {}
bool is_recording_device() {
  return false;
}
void enter_device_span(std::uint64_t) {}
void leave_device_span() {}

#endif

}  // namespace ringtape
