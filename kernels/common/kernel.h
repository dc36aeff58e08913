#pragma once

/// The first include of every `.cu` file: the CUDA built-ins on both targets, and the few helpers with which
/// kernels are written. docs/simt.md explains how the CPU runs kernels.
#define RINGTAPE_IN_KERNEL_FILE

#include "core/target.h"

#if defined(__CUDACC__)
#include "kernels/simt/cuda_builtins.h"
#else
#include "kernels/simt/cpu_builtins.h"
#endif

#include "kernels/common/accumulate.h"
#include "kernels/common/block_reduce.h"
#include "kernels/common/dispatch.h"
#include "kernels/common/elements.h"
#include "kernels/common/launch.h"
#include "kernels/common/vec.h"
