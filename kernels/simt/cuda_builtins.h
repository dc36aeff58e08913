#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/target.h"

/// The names that kernel.h adds to the CUDA built-ins under nvcc.
namespace ringtape::on_cuda {

inline constexpr bool kIsCpu = false;
/// True where for_each_vec and the shapes use the GPU's geometry: under nvcc, and for kernels that the CPU
/// runs in check builds, in the analysis and on the GPU model.
inline constexpr bool kGpuGeometry = true;

/// The source location of a barrier. Only the CPU's executor uses it.
struct SourceLocation {
  __device__ static SourceLocation here() { return {}; }
};

/// The block's dynamic shared memory, LaunchShape::shared_bytes long.
template <class T>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}

}  // namespace ringtape::on_cuda
