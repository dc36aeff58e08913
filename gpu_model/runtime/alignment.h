#pragma once

#include <string>

/// Accesses at an address that is not a multiple of the type's alignment, such as a float4 at byte 8, which a
/// GPU refuses with cudaErrorMisalignedAddress. Kernels are compiled with -fsanitize=alignment; where they
/// move elements one by one that a GPU moves at once, they call note_misaligned() of gpu_model/model.h.
namespace gpu_model {

/// The first misaligned access since the last call: "kernels/relu.cu:40: an access at 0x7f0000000004,
/// expected a multiple of 16"; "" where there was none.
std::string take_misaligned_access();

}  // namespace gpu_model
