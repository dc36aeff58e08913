#include "core/capture.h"

#include <utility>

#include "core/error.h"

namespace ringtape {
namespace {

thread_local bool capturing = false;

}  // namespace

bool is_capturing() {
  return capturing;
}

void forbid_in_capture(const char* what) {
  check(!capturing, "CUDA graph: {}, which a graph cannot repeat", what);
}

CaptureScope::CaptureScope() {
  check(!std::exchange(capturing, true), "CUDA graph: this thread is already capturing one");
}

CaptureScope::~CaptureScope() {
  capturing = false;
}

}  // namespace ringtape
