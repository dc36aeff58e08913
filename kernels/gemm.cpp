#include "kernels/gemm.h"

#include <atomic>
#include <limits>

#include "core/error.h"
#include "core/memory.h"
#include "kernels/elementwise.h"
#include "kernels/gemm_tiled.h"
#include "kernels/gemm_vendor.h"
#include "kernels/matvec.h"
#include "kernels/reduce.h"
#include "kernels/relu.h"

namespace ringtape {
namespace {

bool has_vendor(Device device) {
  return vendor_gemm_name(device) != "none";
}

/// The choice for the device's type.
std::atomic<GemmBackend>& choice(Device device) {
  const auto preferred = [](DeviceType type) {
    return has_vendor({type, 0}) ? GemmBackend::vendor : GemmBackend::own;
  };
  static std::atomic<GemmBackend> cpu = preferred(DeviceType::cpu);
  static std::atomic<GemmBackend> cuda = preferred(DeviceType::cuda);
  return device.is_cpu() ? cpu : cuda;
}

std::atomic<bool>& tf32_allowed() {
  static std::atomic<bool> allowed = false;
  return allowed;
}

std::string describe(const GemmArgs& args) {
  return fmt::format("gemm of {}[{}, {}]{} by [{}, {}]{} into {}", name_of(args.dtype), args.m, args.k,
                     args.transpose_a ? " (A transposed)" : "", args.k, args.n,
                     args.transpose_b ? " (B transposed)" : "", name_of(args.out_dtype));
}

// The checks below call fail() themselves, so that describe() runs only for an error.

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

#ifdef RINGTAPE_WITH_CPU_BLAS
bool is_half(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}

/// A 16-bit multiplication for a library without this dtype: the operands are converted to f32, which is
/// exact, and a 16-bit result is rounded once, as in a 16-bit product.
bool gemm_through_f32(const Stream& stream, const GemmArgs& given) {
  GemmArgs args = given;
  const MemoryScope category(MemoryCategory::workspace);
  const auto converted = [&](const void* from, DType dtype, std::int64_t elements) {
    auto memory = allocate(stream.device(), static_cast<std::size_t>(elements) * sizeof(float));
    cast(stream, dtype, from, DType::f32, memory.get(), elements, false);
    return memory;
  };
  // Rows are converted together with the gaps between them.
  const auto extent = [](std::int64_t rows, std::int64_t columns, std::int64_t ld) {
    return (rows - 1) * ld + columns;
  };
  const auto a =
      converted(args.a, args.dtype,
                args.transpose_a ? extent(args.k, args.m, args.lda) : extent(args.m, args.k, args.lda));
  const auto b =
      converted(args.b, args.dtype,
                args.transpose_b ? extent(args.n, args.k, args.ldb) : extent(args.k, args.n, args.ldb));
  args.a = a.get();
  args.b = b.get();
  args.dtype = args.out_dtype = DType::f32;
  if (given.out_dtype == DType::f32) return gemm_cpu_vendor(args);

  const std::int64_t c_extent = extent(args.m, args.n, args.ldc);
  const auto c = converted(args.c, given.out_dtype, c_extent);
  args.c = c.get();
  std::shared_ptr<void> bias;
  if (args.bias != nullptr) {
    bias = converted(args.bias, given.out_dtype, args.n);
    args.bias = bias.get();
  }
  if (!gemm_cpu_vendor(args)) return false;
  cast(stream, DType::f32, c.get(), given.out_dtype, given.c, c_extent, false);
  return true;
}
#endif

void multiply(const Stream& stream, const GemmArgs& args) {
  const bool by_vendor = gemm_backend(stream.device()) == GemmBackend::vendor;
  const bool is_matvec = args.m == 1 && args.k > 0 && args.transpose_b && !args.transpose_a;
  if (is_matvec && (!by_vendor || stream.device().is_cpu())) return matvec(stream, args);
  if (args.k > 0 && by_vendor) {
#ifdef RINGTAPE_WITH_CUDA
    if (stream.device().is_cuda() && gemm_cublas(stream, args)) return;
#endif
#ifdef RINGTAPE_WITH_CPU_BLAS
    if (stream.device().is_cpu()) {
      if (gemm_cpu_vendor(args) || (is_half(args.dtype) && gemm_through_f32(stream, args))) return;
    }
#endif
  }
  gemm_tiled(stream, args);
}

/// The product with its bias or its sums of A in one launch, if cuBLASLt can compute them so. Returns false
/// (having done nothing) otherwise.
bool multiply_with_epilogue([[maybe_unused]] const Stream& stream, [[maybe_unused]] const GemmArgs& args) {
#ifdef RINGTAPE_WITH_CUDA
  const bool by_cublas = stream.device().is_cuda() && gemm_backend(stream.device()) == GemmBackend::vendor;
  const bool has_epilogue = args.bias != nullptr || args.a_sums != nullptr;
  return by_cublas && has_epilogue && args.n > 0 && args.k > 0 && gemm_cublaslt(stream, args);
#else
  return false;
#endif
}

}  // namespace

int int_size(std::int64_t size, const char* library) {
  check(size <= std::numeric_limits<int>::max(), "gemm in {}: a size of {} is beyond 2^31 - 1", library,
        size);
  return static_cast<int>(size);
}

void set_gemm_backend(GemmBackend backend, Device device) {
  check(backend == GemmBackend::own || has_vendor(device),
        "no vendor GEMM for {}: Ringtape was built without {}, so its own kernel is the only choice",
        to_string(device), device.is_cpu() ? "oneDNN and OpenBLAS" : "CUDA and cuBLAS");
  choice(device) = backend;
}

void set_tf32(bool on, Device device) {
  check(!on || device.is_cuda(), "TF32 is a mode of a GPU's tensor cores: {} multiplies f32 as f32",
        to_string(device));
  check(!on || has_bf16_instructions(device),
        "TF32 needs a GPU of compute capability 8.0 or more: {} has less", to_string(device));
  tf32_allowed() = on;
}

bool tf32(Device device) {
  return device.is_cuda() && tf32_allowed();
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
  const std::int64_t row_of_a = args.transpose_a ? args.m : args.k;
  resolve_leading_dimension(args, "lda", row_of_a, args.lda);
  resolve_leading_dimension(args, "ldb", args.transpose_b ? args.k : args.n, args.ldb);
  resolve_leading_dimension(args, "ldc", args.n, args.ldc);
  if (args.a_sums != nullptr && args.lda != row_of_a) {
    fail("{}: sums of A with lda {}, but a row has {} elements: expected no gaps", describe(args), args.lda,
         row_of_a);
  }
  if (args.relu && args.ldc != args.n) {
    fail("{}: ReLU with ldc {}, but a row has {} elements: expected no gaps", describe(args), args.ldc,
         args.n);
  }
  if (args.m == 0) return;

  const bool has_all = multiply_with_epilogue(stream, args);
  if (!has_all && args.n > 0) multiply(stream, args);
  if (args.relu) relu_forward(stream, args.out_dtype, args.c, args.c, args.m * args.n);
  if (has_all || args.a_sums == nullptr) return;
  const std::int64_t outer = args.transpose_a ? 1 : args.m, inner = args.transpose_a ? args.m : 1;
  sum_dim(stream, args.dtype, args.a, outer, args.k, inner, 1.0, args.out_dtype, args.a_sums, false);
}

}  // namespace ringtape
