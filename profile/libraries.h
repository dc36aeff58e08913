#pragma once

#include <vector>

#include "profile/machine.h"

namespace ringtape {

/// The libraries in use on `device`, each with the loaded version, such as
/// {"oneDNN", "2.6.3"}: the vendor's matrix products, fibers, MPI; CUDA and NCCL for a GPU.
std::vector<Fact> describe_libraries(Device device);

}  // namespace ringtape
