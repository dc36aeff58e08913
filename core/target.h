#pragma once

/// Every `.cu` file is compiled twice: by nvcc for the GPU and by the host compiler for the CPU. Both results
/// may live in one binary, so whatever a `.cu` file defines or includes stands in the namespace of its
/// target; otherwise the linker would merge two different functions of one name (the one-definition rule).
/// (Some programs have the CPU's kernels compiled with instrumentation, in place of the others:
/// docs/analysis.md.)
#if defined(__CUDACC__)
#define RINGTAPE_TARGET on_cuda
#define RINGTAPE_HOST_DEVICE __host__ __device__
#else
#define RINGTAPE_TARGET on_cpu
#define RINGTAPE_HOST_DEVICE
#endif
