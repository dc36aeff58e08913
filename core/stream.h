#pragma once

#include "core/device.h"

namespace ringtape {

/// A queue of work on a device. On CUDA it wraps a cudaStream_t; on the CPU work runs immediately and a
/// stream only names the device. Cheap to copy. The members are defined out of line because kernels of both
/// targets include this header (see core/target.h).
class Stream {
 public:
  /// The stream that operations on `device` use in this thread: one non-blocking stream per GPU unless a
  /// StreamScope has set another. Makes a GPU the current device of this thread (cudaSetDevice).
  static Stream current(Device device);
  /// A new stream; on CUDA it exists until the process ends.
  static Stream create(Device device);

  Device device() const;
  /// The cudaStream_t, or null on the CPU.
  void* native() const;
  /// Waits until all work queued so far has finished. Throws Error if it failed, or during a capture.
  void synchronize() const;

 private:
  friend class StreamScope;
  Stream(Device device, void* native);
  Device device_;
  void* native_;
};

/// Makes `stream` the current one of its device in this thread until the scope ends.
class StreamScope {
 public:
  explicit StreamScope(Stream stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream previous_;
};

/// A point in a stream, for waiting and for timing. On the CPU it holds the time at which it was recorded.
class Event {
 public:
  explicit Event(Device device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream);
  /// Makes work queued on `stream` from now on wait for this event.
  void wait_on(const Stream& stream) const;
  /// Makes the host wait for this event.
  void synchronize() const;
  /// Milliseconds from `start` to this event. Both must have been recorded; waits for this one.
  double elapsed_ms_since(const Event& start) const;

 private:
  Device device_;
  void* native_ = nullptr;
  double seconds_ = 0;
};

}  // namespace ringtape
