#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "gpu_model/cupti/recorder.h"
#include "gpu_model/runtime/device_kind.h"

// CUPTI documentation, "CUPTI Activity API" and "CUPTI Callback API".

/// The only subscriber that there can be; the model calls no callbacks.
struct CUpti_Subscriber_st {
  bool is_subscribed = false;
};

namespace gpu_model {
namespace {

/// Never destroyed: operations may finish while the process ends.
Recorder& recorder() {
  static Recorder* const one = new Recorder;
  return *one;
}

std::mutex subscriber_mutex;
CUpti_Subscriber_st subscriber;

bool is_known(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID && kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

}  // namespace
}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
#define RESULT(name) \
  case name:         \
    *text = #name;   \
    return CUPTI_SUCCESS
    RESULT(CUPTI_SUCCESS);
    RESULT(CUPTI_ERROR_INVALID_PARAMETER);
    RESULT(CUPTI_ERROR_INVALID_OPERATION);
    RESULT(CUPTI_ERROR_MAX_LIMIT_REACHED);
    RESULT(CUPTI_ERROR_NOT_INITIALIZED);
    RESULT(CUPTI_ERROR_QUEUE_EMPTY);
    RESULT(CUPTI_ERROR_INVALID_KIND);
    RESULT(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
#undef RESULT
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc, void*) {
  if (handle == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (device_count() == 0) return CUPTI_ERROR_NOT_INITIALIZED;
  const std::lock_guard lock(subscriber_mutex);
  if (subscriber.is_subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscriber.is_subscribed = true;
  *handle = &subscriber;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
  const std::lock_guard lock(subscriber_mutex);
  if (handle != &subscriber || !subscriber.is_subscribed) return CUPTI_ERROR_INVALID_PARAMETER;
  subscriber.is_subscribed = false;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  return recorder().buffers.set_callbacks(request, complete) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc timestamp) {
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  recorder().set_clock(timestamp);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (bytes_of_record(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  recorder().enable(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (bytes_of_record(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  recorder().disable(kind);
  return CUPTI_SUCCESS;
}

/// A record is made when its work is complete, so a forced flush finds no incomplete ones.
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  return recorder().buffers.flush() ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes,
                                       CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  std::uint8_t* next = buffer;
  if (*record != nullptr) next = reinterpret_cast<std::uint8_t*>(*record) + bytes_of_record((*record)->kind);
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* const found = reinterpret_cast<CUpti_Activity*>(next);
  if (bytes_of_record(found->kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = recorder().buffers.take_dropped();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  if (!is_known(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  external_ids()[kind].push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
  if (!is_known(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  auto& ids = external_ids()[kind];
  if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}
}
