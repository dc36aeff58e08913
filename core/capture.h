#pragma once

#include <vector>

#include "core/graph_nodes.h"

namespace ringtape {

/// Whether this thread is capturing a CUDA graph (see Graph): the work it queues is then captured, and runs
/// later, any number of times, without the host.
bool is_capturing();

/// Throws Error in a thread that is capturing. Call it where the host would wait for the device, or pass it a
/// value that a replay would not update; `what` names the function and its action.
void forbid_in_capture(const char* what);

/// Where this thread is capturing, notes the computation of a library's launch that it has just queued: the
/// graph itself does not know it.
void note_library_work(LibraryWork work);

/// Marks this thread as capturing during its lifetime.
class CaptureScope {
 public:
  CaptureScope();
  ~CaptureScope();
  /// The computations noted so far, in the order of the calls.
  const std::vector<LibraryWork>& library_work() const { return library_work_; }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  friend void note_library_work(LibraryWork work);
  std::vector<LibraryWork> library_work_;
};

}  // namespace ringtape
