#include "core/capture.h"

#include <utility>

#include "core/error.h"

namespace ringtape {
namespace {

thread_local CaptureScope* capture = nullptr;

}  // namespace

bool is_capturing() {
  return capture != nullptr;
}

void forbid_in_capture(const char* what) {
  check(capture == nullptr, "CUDA graph: {}, which a graph cannot repeat", what);
}

void note_library_work(LibraryWork work) {
  if (capture != nullptr) capture->library_work_.push_back(std::move(work));
}

CaptureScope::CaptureScope() {
  check(capture == nullptr, "CUDA graph: this thread is already capturing one");
  capture = this;
}

CaptureScope::~CaptureScope() {
  capture = nullptr;
}

}  // namespace ringtape
