#include "core/stream.h"

#include <chrono>
#include <map>
#include <mutex>

#include "core/capture.h"
#include "core/cuda_check.h"
#include "core/error.h"

namespace ringtape {
namespace {

#ifdef RINGTAPE_WITH_CUDA
cudaStream_t cuda_stream(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.native());
}
#endif

void* create_native(Device device) {
#ifdef RINGTAPE_WITH_CUDA
  if (device.is_cuda()) {
    RINGTAPE_CUDA(cudaSetDevice(device.index));
    cudaStream_t stream;
    RINGTAPE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
#endif
  check(device.is_cpu(), "no stream for {}: this build has no CUDA kernels", to_string(device));
  return nullptr;
}

/// One stream per GPU, which all threads share unless a StreamScope sets another.
void* default_native(Device device) {
  static std::mutex mutex;
  static std::map<int, void*> streams;
  const std::lock_guard lock(mutex);
  auto entry = streams.find(device.index);
  if (entry == streams.end()) entry = streams.emplace(device.index, create_native(device)).first;
  return entry->second;
}

thread_local std::map<int, void*> streams_of_thread;

}  // namespace

Stream::Stream(Device device, void* native) : device_(device), native_(native) {}

Stream Stream::current(Device device) {
  if (device.is_cpu()) return {device, nullptr};
#ifdef RINGTAPE_WITH_CUDA
  RINGTAPE_CUDA(cudaSetDevice(device.index));
#endif
  auto entry = streams_of_thread.find(device.index);
  if (entry == streams_of_thread.end()) {
    entry = streams_of_thread.emplace(device.index, default_native(device)).first;
  }
  return {device, entry->second};
}

Stream Stream::create(Device device) {
  return {device, create_native(device)};
}

Device Stream::device() const {
  return device_;
}
void* Stream::native() const {
  return native_;
}

void Stream::synchronize() const {
  forbid_in_capture("Stream::synchronize() makes the host wait");
#ifdef RINGTAPE_WITH_CUDA
  if (device_.is_cuda()) RINGTAPE_CUDA(cudaStreamSynchronize(cuda_stream(*this)));
#endif
}

StreamScope::StreamScope(Stream stream) : previous_(Stream::current(stream.device())) {
  if (stream.device().is_cuda()) streams_of_thread[stream.device().index] = stream.native();
}

StreamScope::~StreamScope() {
  if (previous_.device().is_cuda()) streams_of_thread[previous_.device().index] = previous_.native();
}

Event::Event(Device device) : device_(device) {
#ifdef RINGTAPE_WITH_CUDA
  if (device_.is_cuda()) {
    RINGTAPE_CUDA(cudaSetDevice(device_.index));
    cudaEvent_t event;
    RINGTAPE_CUDA(cudaEventCreate(&event));
    native_ = event;
  }
#endif
}

Event::~Event() {
#ifdef RINGTAPE_WITH_CUDA
  if (native_ != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(native_));
#endif
}

void Event::record(const Stream& stream) {
  check(stream.device() == device_, "event of {} recorded on a stream of {}", to_string(device_),
        to_string(stream.device()));
#ifdef RINGTAPE_WITH_CUDA
  if (native_ != nullptr) {
    RINGTAPE_CUDA(cudaEventRecord(static_cast<cudaEvent_t>(native_), cuda_stream(stream)));
    return;
  }
#endif
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Event::wait_on([[maybe_unused]] const Stream& stream) const {
#ifdef RINGTAPE_WITH_CUDA
  if (native_ != nullptr) {
    RINGTAPE_CUDA(cudaStreamWaitEvent(cuda_stream(stream), static_cast<cudaEvent_t>(native_), 0));
  }
#endif
}

void Event::synchronize() const {
  forbid_in_capture("Event::synchronize() makes the host wait");
#ifdef RINGTAPE_WITH_CUDA
  if (native_ == nullptr) return;
  RINGTAPE_CUDA(cudaSetDevice(device_.index));  // or a new thread would open a context on GPU 0
  RINGTAPE_CUDA(cudaEventSynchronize(static_cast<cudaEvent_t>(native_)));
#endif
}

double Event::elapsed_ms_since(const Event& start) const {
#ifdef RINGTAPE_WITH_CUDA
  if (native_ != nullptr) {
    synchronize();
    float milliseconds = 0;
    RINGTAPE_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(start.native_),
                                       static_cast<cudaEvent_t>(native_)));
    return milliseconds;
  }
#endif
  return (seconds_ - start.seconds_) * 1e3;
}

}  // namespace ringtape
