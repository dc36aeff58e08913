#pragma once

#include <vector>

#include "core/graph_nodes.h"

namespace ringtape {

/// True while this thread captures a CUDA graph (see Graph): the work that it queues does not run then, but
/// becomes part of the graph.
bool is_capturing();

/// Throws Error if this thread is capturing. Call it before the host waits for the device, and before it
/// passes the device a value that a replay would not update. `what` names the forbidden action.
void forbid_in_capture(const char* what);

/// If this thread is capturing, records the computation of a library call that it has just queued: the graph
/// does not contain this information.
void note_library_work(LibraryWork work);

/// This thread is capturing while a CaptureScope exists. Throws Error if it is capturing already.
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
