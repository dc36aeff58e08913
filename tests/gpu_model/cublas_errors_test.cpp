// cuBLAS as its reference describes it: errors, and handles.
#include <functional>
#include <string>

#include "tests/gpu_model/gemm_call.h"
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

struct Spoiled {
  const char* what;
  cublasStatus_t expected;
  std::function<void(Gemm&)> spoil;
};

TEST_CASE("cublasGemmEx: the documented errors") {
  constexpr auto invalid = CUBLAS_STATUS_INVALID_VALUE;
  constexpr auto unsupported = CUBLAS_STATUS_NOT_SUPPORTED;
  const OwnHandle handle;
  const DeviceInts a(64), b(64), c(64);
  const Gemm good{handle, a.get(), b.get(), c.get()};
  REQUIRE(good.run() == CUBLAS_STATUS_SUCCESS);
  const float one = 1;
  const Spoiled table[] = {
      {"no handle", CUBLAS_STATUS_NOT_INITIALIZED, [](Gemm& g) { g.handle = nullptr; }},
      {"m < 0", invalid, [](Gemm& g) { g.m = -1; }},
      {"n < 0", invalid, [](Gemm& g) { g.n = -1; }},
      {"k < 0", invalid, [](Gemm& g) { g.k = -1; }},
      {"transa", invalid, [](Gemm& g) { g.op_a = static_cast<cublasOperation_t>(77); }},
      {"transb", invalid, [](Gemm& g) { g.op_b = static_cast<cublasOperation_t>(3); }},
      {"lda < m", invalid, [](Gemm& g) { g.lda = 7; }},
      {"lda < k, transposed", invalid, [](Gemm& g) { g.op_a = CUBLAS_OP_T, g.lda = 3; }},
      {"lda = k, transposed", CUBLAS_STATUS_SUCCESS, [](Gemm& g) { g.op_a = CUBLAS_OP_C, g.lda = 4; }},
      {"ldb < k", invalid, [](Gemm& g) { g.ldb = 3; }},
      {"ldb < n, transposed", invalid, [](Gemm& g) { g.op_b = CUBLAS_OP_T, g.ldb = 1; }},
      {"ldb = n, transposed", CUBLAS_STATUS_SUCCESS, [](Gemm& g) { g.op_b = CUBLAS_OP_T, g.ldb = 2; }},
      {"ldc < m", invalid, [](Gemm& g) { g.ldc = 2; }},
      {"ldc < 1", invalid, [](Gemm& g) { g.m = g.ldc = 0; }},
      {"ldb < 1", invalid, [](Gemm& g) { g.k = g.ldb = 0; }},
      {"no alpha", invalid, [](Gemm& g) { g.alpha = nullptr; }},
      {"no beta", invalid, [](Gemm& g) { g.beta = nullptr; }},
      {"no C to scale", invalid, [&](Gemm& g) { g.c = nullptr, g.beta = &one; }},
      {"f32 and f16", unsupported, [](Gemm& g) { g.b_type = CUDA_R_16F; }},
      {"f32 and f16 to bf16", unsupported, [](Gemm& g) { g.b_type = CUDA_R_16F, g.c_type = CUDA_R_16BF; }},
      {"f16 to bf16", unsupported, [](Gemm& g) { g.set_types(CUDA_R_16F, CUDA_R_16BF); }},
      {"f32 to f16", unsupported, [](Gemm& g) { g.c_type = CUDA_R_16F; }},
      {"f64 in f32", unsupported, [](Gemm& g) { g.set_types(CUDA_R_64F, CUDA_R_64F); }},
      {"f32 in f64", unsupported, [](Gemm& g) { g.compute_type = CUBLAS_COMPUTE_64F; }},
      {"f32 in f16", unsupported, [](Gemm& g) { g.compute_type = CUBLAS_COMPUTE_16F; }},
      {"bf16 in TF32", unsupported,
       [](Gemm& g) {
         g.set_types(CUDA_R_16BF, CUDA_R_16BF);
         g.compute_type = CUBLAS_COMPUTE_32F_FAST_TF32;
       }},
      {"algorithm", unsupported, [](Gemm& g) { g.algorithm = static_cast<cublasGemmAlgo_t>(3); }},
      {"f16 to f32", CUBLAS_STATUS_SUCCESS, [](Gemm& g) { g.set_types(CUDA_R_16F, CUDA_R_32F); }},
      {"bf16 to f32", CUBLAS_STATUS_SUCCESS, [](Gemm& g) { g.set_types(CUDA_R_16BF, CUDA_R_32F); }},
  };
  CHECK(each_report_of([&] {
          for (const auto& [what, expected, spoil] : table) {
            INFO(what);
            Gemm gemm = good;
            gemm.alpha = &good.one, gemm.beta = &good.zero;
            spoil(gemm);
            CHECK(gemm.run() == expected);
          }
        }).empty());
}

TEST_CASE("cuBLAS: the documented errors of handles and settings") {
  constexpr auto invalid = CUBLAS_STATUS_INVALID_VALUE;
  constexpr auto missing = CUBLAS_STATUS_NOT_INITIALIZED;
  CHECK(cublasCreate(nullptr) == invalid);
  CHECK(cublasDestroy(nullptr) == missing);
  CHECK(cublasSetStream(nullptr, nullptr) == missing);
  CHECK(cublasSetWorkspace(nullptr, nullptr, 0) == missing);
  CHECK(cublasSetMathMode(nullptr, CUBLAS_DEFAULT_MATH) == missing);
  CHECK(cublasSetPointerMode(nullptr, CUBLAS_POINTER_MODE_HOST) == missing);

  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetStream(handle, reinterpret_cast<cudaStream_t>(0x1234)) == invalid);
  alignas(256) char memory[512];
  CHECK(cublasSetWorkspace(handle, memory, 256) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetWorkspace(handle, memory + 128, 256) == invalid);
  for (const int mode : {0, 2, 3, 16, 18, 19}) {
    CHECK(cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)) == CUBLAS_STATUS_SUCCESS);
  }
  for (const int mode : {-1, 55, 32}) {
    CHECK(cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)) == invalid);
  }
  CHECK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetPointerMode(handle, static_cast<cublasPointerMode_t>(2)) == invalid);

  REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetStream(handle, nullptr) == missing);
  CHECK(cublasDestroy(handle) == missing);
  CHECK(Gemm{handle, nullptr, nullptr, nullptr}.run() == missing);

  int value = 0;
  CHECK(cublasGetProperty(MAJOR_VERSION, nullptr) == invalid);
  CHECK(cublasGetProperty(MAJOR_VERSION, &value) == CUBLAS_STATUS_SUCCESS);
}

// As libcublas 13 has them.
TEST_CASE("cublasGetStatusString tells errors apart") {
  CHECK(std::string(cublasGetStatusString(CUBLAS_STATUS_SUCCESS)) == "success");
  CHECK(std::string(cublasGetStatusString(CUBLAS_STATUS_NOT_INITIALIZED)) ==
        "the library was not initialized");
  CHECK(std::string(cublasGetStatusString(CUBLAS_STATUS_INVALID_VALUE)) ==
        "an unsupported value or parameter was passed to the function");
  CHECK(std::string(cublasGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED)) ==
        "the requested functionality is not supported");
  CHECK(std::string(cublasGetStatusString(static_cast<cublasStatus_t>(77))) == "unrecognized status");
}

TEST_CASE("cublasCreate allocates, which a capture does not allow") {
  const OwnStream stream;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle) == CUBLAS_STATUS_ALLOC_FAILED);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("cublasDestroy waits for the device") {
  const ScheduleScope late(Schedule::late);
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  const OwnStream stream;
  bool has_run = false;
  REQUIRE(launch_on(stream, [&] { has_run = true; }) == cudaSuccess);
  CHECK_FALSE(has_run);
  REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(has_run);
}

TEST_CASE("a handle belongs to the device that was current when it was created") {
  const FirstDeviceAfterwards afterwards;
  const OwnHandle handle;
  const DeviceInts a(64), b(64), c(64);
  const Gemm gemm{handle, a.get(), b.get(), c.get()};
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(gemm.run() == CUBLAS_STATUS_EXECUTION_FAILED);
  const OwnStream of_second;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cublasSetStream(handle, of_second) == CUBLAS_STATUS_SUCCESS);
  CHECK(gemm.run() == CUBLAS_STATUS_EXECUTION_FAILED);
}

}  // namespace
}  // namespace gpu_model::test
