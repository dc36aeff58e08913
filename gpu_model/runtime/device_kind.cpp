#include "gpu_model/runtime/device_kind.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gpu_model {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;

// NVIDIA, A100 and H100 data sheets and architecture white papers, H200 data sheet; shared memory: CUDA C++
// Programming Guide, "Compute Capabilities".
constexpr DeviceKind kKinds[] = {
    {"A100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 80 * kGiB, 40 * kMiB, 5120, 164 * kKiB, 163 * kKiB},
    {"H100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 80 * kGiB, 50 * kMiB, 5120, 228 * kKiB, 227 * kKiB},
    {"H200", "NVIDIA H200", 9, 0, 132, 141 * kGiB, 50 * kMiB, 6144, 228 * kKiB, 227 * kKiB},
};

[[noreturn]] void refuse(const char* variable, const char* value, const char* expected) {
  std::fprintf(stderr, "gpu model: %s=%s: expected %s\n", variable, value, expected);
  std::_Exit(2);
}

const DeviceKind& read_kind() {
  const char* const wanted = std::getenv("RINGTAPE_MODEL_GPU");
  if (wanted == nullptr) return kKinds[1];
  for (const DeviceKind& kind : kKinds) {
    if (std::strcmp(kind.name, wanted) == 0) return kind;
  }
  refuse("RINGTAPE_MODEL_GPU", wanted, "A100, H100 or H200");
}

int read_count() {
  const char* const text = std::getenv("RINGTAPE_MODEL_GPUS");
  if (text == nullptr) return 1;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (end == text || *end != 0 || count < 0 || count > 64) refuse("RINGTAPE_MODEL_GPUS", text, "0 to 64");
  return static_cast<int>(count);
}

}  // namespace

const DeviceKind& device_kind() {
  static const DeviceKind& kind = read_kind();
  return kind;
}

int device_count() {
  static const int count = read_count();
  return count;
}

}  // namespace gpu_model
