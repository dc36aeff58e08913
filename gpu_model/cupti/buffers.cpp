#include "gpu_model/cupti/buffers.h"

#include <cstring>
#include <utility>

namespace gpu_model {

bool RecordBuffers::set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                  CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return false;
  const std::lock_guard lock(mutex_);
  request_ = request;
  complete_ = complete;
  return true;
}

void RecordBuffers::append(const void* record, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (request_ == nullptr) return;
  const bool is_full = filled_ + bytes > bytes_ || (max_records_ > 0 && records_ == max_records_);
  if (buffer_ != nullptr && is_full) give_back();
  if (buffer_ == nullptr) {
    request_(&buffer_, &bytes_, &max_records_);
    filled_ = records_ = 0;
    if (buffer_ == nullptr || bytes > bytes_) {
      ++dropped_;
      return;
    }
  }
  std::memcpy(buffer_ + filled_, record, bytes);
  filled_ += bytes;
  ++records_;
}

void RecordBuffers::give_back() {
  deliveries_.emplace_back(complete_, nullptr, 0, std::exchange(buffer_, nullptr), bytes_, filled_);
}

bool RecordBuffers::flush() {
  std::vector<std::thread> deliveries;
  {
    const std::lock_guard lock(mutex_);
    if (complete_ == nullptr) return false;
    if (buffer_ != nullptr) give_back();
    deliveries.swap(deliveries_);
  }
  for (std::thread& delivery : deliveries) delivery.join();
  return true;
}

std::size_t RecordBuffers::take_dropped() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, 0);
}

std::size_t bytes_of_record(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset3);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
  }
  return 0;
}

}  // namespace gpu_model
