#pragma once

#include <cstdint>
#include <string>

/// Accesses at addresses that are no multiple of the type's alignment, a float4 at 8 bytes say, which a GPU
/// does not make: cudaErrorMisalignedAddress. Kernels are compiled with -fsanitize=alignment.
namespace gpu_model {

/// What GCC says of a misaligned access (TypeMismatchData of libsanitizer/ubsan/ubsan_handlers.h).
struct Misaligned {
  const char* file;
  std::uint32_t line, column;
  const void* type;
  unsigned char log_alignment;
  unsigned char kind;
};
void note_misaligned(const Misaligned& where, std::uintptr_t address);

/// The first misaligned access since the last call: "kernels/relu.cu:40: an access at 0x7f0000000004,
/// expected a multiple of 16"; "" where there was none.
std::string take_misaligned_access();

}  // namespace gpu_model
