#pragma once

/// The first include of every `.cu` file: CUDA's words on both targets, and the few helpers kernels are
/// written with. docs/simt.md explains how the CPU runs them.
#define RINGTAPE_IN_KERNEL_FILE

#include "core/target.h"

#if defined(__CUDACC__)
#include "kernels/simt/cuda_words.h"
#else
#include "kernels/simt/cpu_words.h"
#endif

#include "kernels/accumulate.h"
#include "kernels/block_reduce.h"
#include "kernels/dispatch.h"
#include "kernels/elements.h"
#include "kernels/launch.h"
#include "kernels/vec.h"
