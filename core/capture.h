#pragma once

namespace ringtape {

/// Whether this thread is capturing a CUDA graph (see Graph): what it queues is then captured and runs
/// later, any number of times, without the host's part in between.
bool is_capturing();

/// Throws Error in a thread that is capturing. To be called where the host would wait for the device, or hand
/// it a value that a repetition would not see change; `what` names the place and what it does there.
void forbid_in_capture(const char* what);

/// Says until its end that this thread is capturing.
class CaptureScope {
 public:
  CaptureScope();
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
};

}  // namespace ringtape
