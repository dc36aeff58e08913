#include "kernels/gemm.h"

#include <atomic>

#include "core/error.h"
#include "kernels/gemm_tiled.h"
#include "kernels/gemm_vendor.h"

namespace ringtape {
namespace {

bool has_vendor(Device device) {
  return vendor_gemm_name(device) != "none";
}

/// The choice for each DeviceType; the CPU's first.
std::atomic<GemmBackend>& choice(Device device) {
  const auto preferred = [](DeviceType type) {
    return has_vendor({type, 0}) ? GemmBackend::vendor : GemmBackend::own;
  };
  static std::atomic<GemmBackend> cpu = preferred(DeviceType::cpu);
  static std::atomic<GemmBackend> cuda = preferred(DeviceType::cuda);
  return device.is_cpu() ? cpu : cuda;
}

std::string describe(const GemmArgs& args) {
  return fmt::format("gemm of {}[{}, {}]{} by [{}, {}]{} into {}", name_of(args.dtype), args.m, args.k,
                     args.transpose_a ? " (A transposed)" : "", args.k, args.n,
                     args.transpose_b ? " (B transposed)" : "", name_of(args.out_dtype));
}

// The checks below call fail() themselves, so that describe() runs for a mistake only.

void resolve_leading_dimension(const GemmArgs& args, const char* name, std::int64_t row, std::int64_t& ld) {
  if (ld == 0) ld = row;
  if (ld < row) fail("{}: {} is {}, but a row has {} elements", describe(args), name, ld, row);
}

void check_dtypes(const Stream& stream, const GemmArgs& args) {
  const bool half = args.dtype == DType::bf16 || args.dtype == DType::f16;
  const bool doubles = args.dtype == DType::f64 && stream.device().is_cpu();
  if (!half && !doubles && args.dtype != DType::f32) {
    fail("{} on {}: expected f32, bf16, f16, or f64 on the CPU", describe(args), to_string(stream.device()));
  }
  if (args.out_dtype != args.dtype && !(half && args.out_dtype == DType::f32)) {
    fail("{}: expected a result of the inputs' dtype{}", describe(args), half ? " or f32" : "");
  }
}

}  // namespace

void set_gemm_backend(GemmBackend backend, Device device) {
  check(backend == GemmBackend::own || has_vendor(device),
        "no vendor GEMM for {}: Ringtape was built without {}, so its own kernel is the only choice",
        to_string(device), device.is_cpu() ? "oneDNN and OpenBLAS" : "CUDA and cuBLAS");
  choice(device) = backend;
}

GemmBackend gemm_backend(Device device) {
  return choice(device);
}

std::string vendor_gemm_name([[maybe_unused]] Device device) {
#ifdef RINGTAPE_WITH_CUDA
  if (device.is_cuda()) return gemm_cublas_name();
#endif
#ifdef RINGTAPE_WITH_CPU_BLAS
  if (device.is_cpu()) return gemm_cpu_vendor_name();
#endif
  return "none";
}

void gemm(const Stream& stream, const GemmArgs& given) {
  GemmArgs args = given;
  if (args.m < 0 || args.n < 0 || args.k < 0) fail("{}: a size is negative", describe(args));
  check_dtypes(stream, args);
  resolve_leading_dimension(args, "lda", args.transpose_a ? args.m : args.k, args.lda);
  resolve_leading_dimension(args, "ldb", args.transpose_b ? args.k : args.n, args.ldb);
  resolve_leading_dimension(args, "ldc", args.n, args.ldc);
  if (args.m == 0 || args.n == 0) return;

  if (args.k > 0 && gemm_backend(stream.device()) == GemmBackend::vendor) {
#ifdef RINGTAPE_WITH_CUDA
    if (stream.device().is_cuda()) return gemm_cublas(stream, args);
#endif
#ifdef RINGTAPE_WITH_CPU_BLAS
    if (stream.device().is_cpu() && gemm_cpu_vendor(args)) return;
#endif
  }
  gemm_tiled(stream, args);
}

}  // namespace ringtape
