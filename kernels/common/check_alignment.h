#pragma once

#include <gpu_model/model.h>

#include <cstdint>

#include "core/target.h"

/// For kernels on the GPU model, which splits accesses that a GPU makes with one instruction.
namespace ringtape::RINGTAPE_TARGET {

/// Fails the launch with cudaErrorMisalignedAddress unless `address` is a multiple of the size of P, as a GPU
/// requires for an access of this size.
template <class P>
inline void check_alignment(const void* address, const char* file = __builtin_FILE(),
                            unsigned line = __builtin_LINE()) {
  if (reinterpret_cast<std::uintptr_t>(address) % sizeof(P) == 0) return;
  gpu_model::note_misaligned(address, sizeof(P), file, line);
}

}  // namespace ringtape::RINGTAPE_TARGET
