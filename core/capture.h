#pragma once

namespace ringtape {

/// Whether this thread is capturing a CUDA graph (see Graph): the work it queues is then captured, and runs
/// later, any number of times, without the host.
bool is_capturing();

/// Throws Error in a thread that is capturing. Call it where the host would wait for the device, or pass it a
/// value that a replay would not update; `what` names the function and its action.
void forbid_in_capture(const char* what);

/// Marks this thread as capturing during its lifetime.
class CaptureScope {
 public:
  CaptureScope();
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
};

}  // namespace ringtape
