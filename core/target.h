#pragma once

/// Every `.cu` file is compiled twice: by nvcc for the GPU and by the host compiler for the CPU. (For the GPU
/// model the host compiler replaces nvcc: docs/gpu-model.md. In some programs the CPU's kernels are compiled
/// with instrumentation: docs/analysis.md.) Both results may live in one binary, so everything that a `.cu`
/// file defines or includes is in the namespace of its target; otherwise the linker would merge two different
/// functions of the same name (the one-definition rule).
#if defined(__CUDACC__)
#define RINGTAPE_TARGET on_cuda
#define RINGTAPE_HOST_DEVICE __host__ __device__
#elif defined(RINGTAPE_ON_MODEL)
#define RINGTAPE_TARGET on_cuda
#define RINGTAPE_HOST_DEVICE
#else
#define RINGTAPE_TARGET on_cpu
#define RINGTAPE_HOST_DEVICE
#endif

/// Defined where a `.cu` file is compiled for a GPU, real or modelled: CUDA's runtime runs its kernels.
#if defined(__CUDACC__) || defined(RINGTAPE_ON_MODEL)
#define RINGTAPE_FOR_GPU
#endif
