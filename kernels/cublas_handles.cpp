#include "kernels/cublas_handles.h"

#include <map>
#include <mutex>

#include "core/capture.h"
#include "core/cuda_check.h"

namespace ringtape {

const CublasHandles& cublas_handles(const Stream& stream) {
  constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // NVIDIA's recommendation for Hopper
  RINGTAPE_CUDA(cudaSetDevice(stream.device().index));
  static std::mutex mutex;
  // Never destroyed: at the end of the process CUDA may shut down first.
  static auto& of_streams = *new std::map<void*, CublasHandles>;
  const std::lock_guard lock(mutex);
  const auto known = of_streams.find(stream.native());
  if (known != of_streams.end()) return known->second;

  CublasHandles handles{
      .blas = nullptr, .lt = nullptr, .workspace = nullptr, .workspace_bytes = kWorkspaceBytes};
  RINGTAPE_CUDA(cudaMalloc(&handles.workspace, kWorkspaceBytes));  // first: it may fail
  RINGTAPE_CUBLAS(cublasCreate(&handles.blas));
  RINGTAPE_CUBLAS(cublasLtCreate(&handles.lt));
  RINGTAPE_CUBLAS(cublasSetStream(handles.blas, static_cast<cudaStream_t>(stream.native())));
  RINGTAPE_CUBLAS(cublasSetWorkspace(handles.blas, handles.workspace, kWorkspaceBytes));
  // Sums stay in f32, also where cuBLAS splits k and the result has 16 bits.
  RINGTAPE_CUBLAS(cublasSetMathMode(handles.blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  return of_streams.emplace(stream.native(), handles).first->second;
}

void note_product(const GemmArgs& args) {
  if (!is_capturing()) return;
  const auto in = static_cast<std::int64_t>(size_of(args.dtype)),
             out = static_cast<std::int64_t>(size_of(args.out_dtype));
  const std::int64_t operands = (args.m + args.n) * args.k * in, result = args.m * args.n * out;
  note_library_work({.name = fmt::format("product {} x {} x {}", args.m, args.n, args.k),
                     .dtype = name_of(args.dtype),
                     .flops = 2 * args.m * args.n * args.k,
                     .bytes = operands + (args.beta == 0 ? 1 : 2) * result});
}

cudaDataType_t cublas_dtype(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

}  // namespace ringtape
