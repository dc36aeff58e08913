#include "kernels/common/launch_errors.h"

#include <limits>

#include "core/error.h"

#if defined(RINGTAPE_WITH_CUDA)
#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#endif

namespace ringtape {

#if defined(RINGTAPE_WITH_CUDA)
namespace {

std::string kernel_name(const void* kernel) {
  const char* symbol = nullptr;
  if (cudaFuncGetName(&symbol, kernel) != cudaSuccess) return "of unknown name";
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), &std::free);
  return demangled ? demangled.get() : symbol;
}

}  // namespace

void check_launch(int cuda_error, const void* kernel) {
  if (cuda_error == cudaSuccess) return;
  cudaGetLastError();  // a failed call stays the "last error" until it is read
  const auto error = static_cast<cudaError_t>(cuda_error);
  fail("kernel {} could not be launched: {} ({})", kernel_name(kernel), cudaGetErrorString(error),
       cudaGetErrorName(error));
}
#endif

void fail_unsupported_dtype(const char* launcher, DType dtype) {
  fail("{}: no kernel for elements of type {} on this device (expected f32, bf16, f16, or f64 on the CPU)",
       launcher, name_of(dtype));
}

unsigned grid_size(std::int64_t blocks) {
  constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();
  check(blocks <= kMaxBlocks, "a launch of {} blocks: expected at most {}", blocks, kMaxBlocks);
  return static_cast<unsigned>(blocks);
}

}  // namespace ringtape
