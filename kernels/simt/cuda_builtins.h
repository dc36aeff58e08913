#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/target.h"

/// What kernel.h adds to CUDA's own words under nvcc.
namespace ringtape::on_cuda {

inline constexpr bool kIsCpu = false;
/// True where for_each_vec and the shapes use the GPU's geometry: under nvcc, and on the CPU in check builds
/// and in the analysis.
inline constexpr bool kGpuGeometry = true;

/// Where a barrier stands in the source. Only the CPU's executor makes use of it.
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
