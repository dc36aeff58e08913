#pragma once

#include <cstddef>
#include <type_traits>

#include "core/stream.h"
#include "core/target.h"
#include "kernels/common/launch_errors.h"
#include "kernels/common/shared_limit.h"

#if defined(RINGTAPE_ON_MODEL)
#include <gpu_model/model.h>

#include "kernels/simt/observer.h"
#endif

/// Starting a kernel: `kernel<<<grid, block, shared_bytes, stream>>>(args...)` in a form for both targets.
namespace ringtape::RINGTAPE_TARGET {

/// Blocks in the grid, threads in a block, and bytes of dynamic shared memory per block.
struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
};

#if defined(RINGTAPE_ON_MODEL)
/// A kernel with a copy of its arguments, for the GPU model: the SIMT executor runs it when its turn comes.
template <class Thread>
class ModelCall final : public gpu_model::KernelCall {
 public:
  ModelCall(const LaunchShape& shape, const void* entry, const Thread& thread)
      : shape_(shape), entry_(entry), thread_(thread) {
    // The model takes words of the arguments for pointers, and the padding after a short argument holds data
    // left on the stack, such as half of an earlier pointer.
    __builtin_clear_padding(&thread_);
  }
  void run() const override {
    simt::access_hook = gpu_model::note_access;
    simt::run_grid(
        shape_.grid, shape_.block, shape_.shared_bytes,
        [](const void* call) { static_cast<const ModelCall*>(call)->thread_(); }, this, entry_);
  }
  const void* arguments() const override { return &thread_; }
  std::size_t argument_bytes() const override { return sizeof thread_; }

 private:
  LaunchShape shape_;
  const void* entry_;
  Thread thread_;
};

template <class... Params>
void start_kernel(void (*kernel)(Params...), const LaunchShape& shape, cudaStream_t stream, Params... args) {
  const auto entry = reinterpret_cast<const void*>(kernel);
  const auto thread = [=] { kernel(args...); };
  gpu_model::launch({entry,
                     {shape.grid.x, shape.grid.y, shape.grid.z},
                     {shape.block.x, shape.block.y, shape.block.z},
                     shape.shared_bytes,
                     stream},
                    new ModelCall(shape, entry, thread));
}

#elif defined(__CUDACC__)

template <class... Params>
void start_kernel(void (*kernel)(Params...), const LaunchShape& shape, cudaStream_t stream, Params... args) {
  // clang-format parts the >>>:
  // clang-format off
  kernel<<<shape.grid, shape.block, shape.shared_bytes, stream>>>(args...);
  // clang-format on
}

#endif

#if defined(RINGTAPE_FOR_GPU)

/// Starts `kernel` on `stream`, whose device becomes the current one. An empty grid or block is no error.
/// Throws Error that names the kernel when CUDA refuses the launch.
template <class... Params>
void launch(void (*kernel)(Params...), const LaunchShape& shape, const Stream& stream,
            std::type_identity_t<Params>... args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  if (shape.block.x == 0 || shape.block.y == 0 || shape.block.z == 0) return;
  const void* entry = reinterpret_cast<const void*>(kernel);
  check_launch(cudaSetDevice(stream.device().index), entry);
  if (shape.shared_bytes > 0) allow_shared_memory(entry, stream.device(), shape.shared_bytes);
  start_kernel(kernel, shape, static_cast<cudaStream_t>(stream.native()), args...);
  check_launch(cudaGetLastError(), entry);
}

#else

/// Runs `kernel` to its end. An empty grid or block is no error. Rethrows the error of the failing block with
/// the lowest number; throws Error for a shape that CUDA does not allow (simt::run_grid).
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
