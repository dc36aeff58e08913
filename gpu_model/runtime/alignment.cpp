#include "gpu_model/runtime/alignment.h"

#include <cstdio>
#include <mutex>
#include <optional>
#include <utility>

#include "gpu_model/include/gpu_model/model.h"

namespace gpu_model {
namespace {

struct Misaligned {
  const void* memory;
  std::size_t alignment;
  const char* file;
  unsigned line;
};
std::mutex misaligned_mutex;
std::optional<Misaligned> first_misaligned;

}  // namespace

void note_misaligned(const void* memory, std::size_t alignment, const char* file, unsigned line) {
  const std::lock_guard lock(misaligned_mutex);
  if (!first_misaligned) first_misaligned = {memory, alignment, file, line};
}

std::string take_misaligned_access() {
  const std::lock_guard lock(misaligned_mutex);
  const std::optional<Misaligned> found = std::exchange(first_misaligned, std::nullopt);
  if (!found) return "";
  char address[32];
  std::snprintf(address, sizeof address, "%p", found->memory);
  return std::string(found->file) + ":" + std::to_string(found->line) + ": an access at " + address +
         ", expected a multiple of " + std::to_string(found->alignment);
}

}  // namespace gpu_model
