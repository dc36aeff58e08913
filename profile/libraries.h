#pragma once

#include <vector>

#include "profile/machine.h"

namespace ringtape {

/// The libraries in use on `device` with their versions, such as {"oneDNN", "2.6.3"}: the CPU's BLAS,
/// Boost.Context and MPI; for a GPU also CUDA, cuBLAS and NCCL. Versions are those of the loaded libraries,
/// Boost's that of its headers.
std::vector<Fact> describe_libraries(Device device);

}  // namespace ringtape
