#pragma once

#include "kernels/common/launcher.h"
#include "kernels/gemm.h"

/// Ringtape's own GEMM: tiles of A and B in shared memory, a small tile of C in each thread's registers.
/// The arguments have been validated by kernels/gemm.cpp, with the leading dimensions filled in.
RINGTAPE_LAUNCHER(gemm_tiled, const GemmArgs& args);
