#include "gpu_model/runtime/alignment.h"

#include <atomic>
#include <cstdio>

namespace gpu_model {
namespace {

std::atomic<const Misaligned*> first = nullptr;
std::atomic<std::uintptr_t> first_address = 0;

}  // namespace

void note_misaligned(const Misaligned& where, std::uintptr_t address) {
  const Misaligned* none = nullptr;
  if (first.compare_exchange_strong(none, &where)) first_address = address;
}

std::string take_misaligned_access() {
  const Misaligned* const where = first.exchange(nullptr);
  if (where == nullptr) return "";
  char address[32];
  std::snprintf(address, sizeof address, "%#zx", static_cast<std::size_t>(first_address.load()));
  return std::string(where->file) + ":" + std::to_string(where->line) + ": an access at " + address +
         ", expected a multiple of " + std::to_string(1u << where->log_alignment);
}

}  // namespace gpu_model
