// cuBLAS as its reference describes it: the values of products, and rounding.
#include <cmath>
#include <cstdint>
#include <vector>

#include "gpu_model/runtime/engine.h"
#include "tests/gpu_model/gemm_call.h"
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

/// Counts the products that are queued while it exists.
struct Products : Observer {
  Products() { set_observer(this); }
  ~Products() override { set_observer(nullptr); }
  void queued(std::uint64_t /*correlation*/, const Operation& operation) override {
    count += operation.name == "cublasGemmEx" ? 1 : 0;
  }
  void finished(const Activity& /*activity*/) override {}
  int count = 0;
};

TEST_CASE("a product without elements queues nothing, one without terms scales C") {
  const OwnHandle handle;
  const DeviceInts c(16);
  set_floats(c, 3, 16);
  Gemm gemm{handle, nullptr, nullptr, c.get()};
  const float two = 2;
  gemm.beta = &two;
  CHECK(each_report_of([&] {
          const Products products;
          gemm.n = 0;
          CHECK(gemm.run() == CUBLAS_STATUS_SUCCESS);
          gemm.n = 2, gemm.m = 0;
          CHECK(gemm.run() == CUBLAS_STATUS_SUCCESS);
          CHECK(products.count == 0);
          gemm.m = 8, gemm.k = 0;
          CHECK(gemm.run() == CUBLAS_STATUS_SUCCESS);
          CHECK(products.count == 1);
        }).empty());
  CHECK(float_at(c, 15) == 6);
}

struct Type {
  cudaDataType in, out;
  cublasComputeType_t compute_type;
};
const Type kTypes[] = {{CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                       {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
                       {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_16F},
                       {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_16BF},
                       {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F},
                       {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
                       {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                       {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F}};

/// Whether each of the 16 elements of C is NaN.
bool is_all_nan(const DeviceInts& c, cudaDataType type) {
  for (std::size_t i = 0; i < 16; ++i) {
    std::uint32_t bits = 0;
    const std::size_t bytes = type == CUDA_R_32F ? 4 : 2;
    peek(&bits, reinterpret_cast<const char*>(c.get()) + i * bytes, bytes);
    const std::uint32_t infinity = type == CUDA_R_32F ? 0x7f800000 : type == CUDA_R_16F ? 0x7c00 : 0x7f80;
    const std::uint32_t magnitude = type == CUDA_R_32F ? bits & 0x7fffffff : bits & 0x7fff;
    if (magnitude <= infinity) return false;
  }
  return true;
}

TEST_CASE("uninitialised memory makes a product NaN, with every type") {
  const OwnHandle handle;
  for (const Type& type : kTypes) {
    INFO(type.in << " " << type.out << " " << type.compute_type);
    for (const bool poisons_a : {true, false}) {
      const DeviceInts fresh(64), zeros(64), c(16);  // fresh memory is poisoned
      set_ints(zeros, std::vector<int>(64));
      set_ints(c, std::vector<int>(16));
      Gemm gemm{handle, poisons_a ? fresh.get() : zeros.get(), poisons_a ? zeros.get() : fresh.get(),
                c.get()};
      gemm.set_types(type.in, type.out);
      gemm.compute_type = type.compute_type;
      REQUIRE(gemm.run() == CUBLAS_STATUS_SUCCESS);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      CHECK(is_all_nan(c, type.out));
    }
    const DeviceInts zeros(64), fresh(16);  // C, where it is read
    set_ints(zeros, std::vector<int>(64));
    Gemm gemm{handle, zeros.get(), zeros.get(), fresh.get()};
    gemm.set_types(type.in, type.out);
    gemm.compute_type = type.compute_type;
    gemm.beta = &gemm.one;
    REQUIRE(gemm.run() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(is_all_nan(fresh, type.out));
    gemm.beta = &gemm.zero;
    REQUIRE(gemm.run() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(value_of(fresh.get()) == 0);
  }
}

/// x * 1, as a product of two f32 matrices of one element.
float product_of(cublasHandle_t handle, float x, cublasComputeType_t compute_type) {
  const DeviceInts a, b, c;
  set_floats(a, x, 1);
  set_floats(b, 1, 1);
  Gemm gemm{handle, a.get(), b.get(), c.get()};
  gemm.m = gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldc = 1;
  gemm.compute_type = compute_type;
  REQUIRE(gemm.run() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  return float_at(c);
}

TEST_CASE("operands are rounded as the compute type and the math mode allow it") {
  const OwnHandle handle;
  const float x = 1 + 0x1p-10f + 0x1p-12f;  // 10 mantissa bits and a quarter of the last
  CHECK(product_of(handle, x, CUBLAS_COMPUTE_32F) == x);
  CHECK(product_of(handle, x, CUBLAS_COMPUTE_32F_FAST_TF32) == 1 + 0x1p-10f);
  CHECK(product_of(handle, 1 + 0x1p-11f, CUBLAS_COMPUTE_32F_FAST_TF32) == 1 + 0x1p-10f);
  CHECK(product_of(handle, x, CUBLAS_COMPUTE_32F_FAST_16F) == 1 + 0x1p-10f);
  CHECK(std::isinf(product_of(handle, 70000, CUBLAS_COMPUTE_32F_FAST_16F)));
  CHECK(product_of(handle, 1 + 0x1p-7f + 0x1p-9f, CUBLAS_COMPUTE_32F_FAST_16BF) == 1 + 0x1p-7f);
  const auto set_mode = [&](int mode) {
    REQUIRE(cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)) == CUBLAS_STATUS_SUCCESS);
  };
  constexpr int flag = CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  for (const int mode : {int{CUBLAS_DEFAULT_MATH}, int{CUBLAS_PEDANTIC_MATH}, flag}) {
    set_mode(mode);
    CHECK(product_of(handle, x, CUBLAS_COMPUTE_32F) == x);
  }
  for (const int mode : {int{CUBLAS_TF32_TENSOR_OP_MATH}, CUBLAS_TF32_TENSOR_OP_MATH | flag}) {
    set_mode(mode);
    CHECK(product_of(handle, x, CUBLAS_COMPUTE_32F) == 1 + 0x1p-10f);
  }
}

TEST_CASE("pointer mode DEVICE: alpha and beta are read when the product runs") {
  const ScheduleScope late(Schedule::late);
  const OwnHandle handle;
  const DeviceInts a(64), b(64), c(16), alpha, beta;
  set_floats(a, 1, 32);
  set_floats(b, 1, 8);
  set_floats(c, 5, 16);
  set_floats(alpha, 1, 1);
  set_floats(beta, 0, 1);
  Gemm gemm{handle, a.get(), b.get(), c.get()};
  gemm.alpha = alpha.get(), gemm.beta = beta.get();
  REQUIRE(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_SUCCESS);
  set_floats(alpha, 3, 1);
  set_floats(beta, 2, 1);
  REQUIRE(gemm.run() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(float_at(c) == 3 * 4 + 2 * 5);
  gemm.alpha = &gemm.one;  // of the host
  CHECK(each_report_of([&] { CHECK(gemm.run() == CUBLAS_STATUS_SUCCESS); }).size() == 1);
}

}  // namespace
}  // namespace gpu_model::test
