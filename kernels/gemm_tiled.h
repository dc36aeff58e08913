#pragma once

#include "kernels/common/launcher.h"
#include "kernels/gemm.h"

/// Ringtape's own GEMM: tiles of A and B in shared memory, a small tile of C in each thread's registers.
/// The arguments have been validated by kernels/gemm.cpp, with the leading dimensions filled in.
RINGTAPE_LAUNCHER(gemm_tiled, const GemmArgs& args);

/// Our own products of many tiles on a GPU (they run on a CPU too, where gemm_tiled has faster tiles). They
/// take the arguments of gemm_tiled with a k of at least 1: f32 by multiply-adds; bf16 and f16 by the tensor
/// cores, if A and B begin at a multiple of 16 bytes and their leading dimensions are multiples of 8.
RINGTAPE_LAUNCHER(gemm_large_f32, const GemmArgs& args);
RINGTAPE_LAUNCHER(gemm_large_half, const GemmArgs& args);
