#pragma once

#include <cstddef>
#include <type_traits>

#include "core/stream.h"
#include "core/target.h"
#include "kernels/common/launch_errors.h"

/// Starting a kernel: `kernel<<<grid, block, shared_bytes, stream>>>(args...)` in a form for both targets.
namespace ringtape::RINGTAPE_TARGET {

/// Blocks in the grid, threads in a block, and bytes of dynamic shared memory per block.
struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
};

#if defined(__CUDACC__)

/// Starts `kernel` on `stream`. An empty grid or block is no error. Throws Error that names the kernel when
/// CUDA refuses the launch.
template <class... Params>
void launch(void (*kernel)(Params...), const LaunchShape& shape, const Stream& stream,
            std::type_identity_t<Params>... args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  if (shape.block.x == 0 || shape.block.y == 0 || shape.block.z == 0) return;
  const void* entry = reinterpret_cast<const void*>(kernel);
  constexpr std::size_t kDefaultSharedLimit = 48 * 1024;
  if (shape.shared_bytes > kDefaultSharedLimit) {
    check_launch(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shape.shared_bytes)),
                 entry);
  }
  kernel<<<shape.grid, shape.block, shape.shared_bytes, static_cast<cudaStream_t>(stream.native())>>>(
      args...);
  check_launch(cudaGetLastError(), entry);
}

#else

/// Runs `kernel` to its end. An empty grid or block is no error. Rethrows the first error of a thread; throws
/// Error for more threads in a block than CUDA allows.
template <class... Params>
void launch(void (*kernel)(Params...), const LaunchShape& shape, const Stream&,
            std::type_identity_t<Params>... args) {
  const auto thread = [&] { kernel(args...); };
  using Thread = decltype(thread);
  simt::run_grid(
      shape.grid, shape.block, shape.shared_bytes, [](const void* run) { (*static_cast<Thread*>(run))(); },
      &thread, reinterpret_cast<const void*>(kernel));
}

#endif

}  // namespace ringtape::RINGTAPE_TARGET
