// cuBLAS as its reference describes it: errors, rounding, the workspace, and accesses that a GPU would
// refuse.
#include <cublas_v2.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "gpu_model/runtime/engine.h"
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

class OwnHandle {
 public:
  OwnHandle() { REQUIRE(cublasCreate(&handle_) == CUBLAS_STATUS_SUCCESS); }
  ~OwnHandle() { cublasDestroy(handle_); }
  OwnHandle(const OwnHandle&) = delete;
  OwnHandle& operator=(const OwnHandle&) = delete;
  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

/// A call that a test can spoil: C [8, 2] = A [8, 4] B [4, 2] in columns.
struct Gemm {
  cublasHandle_t handle;
  const void *a, *b;
  void* c;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  int m = 8, n = 2, k = 4, lda = 8, ldb = 4, ldc = 8;
  cudaDataType a_type = CUDA_R_32F, b_type = CUDA_R_32F, c_type = CUDA_R_32F;
  cublasComputeType_t compute_type = CUBLAS_COMPUTE_32F;
  cublasGemmAlgo_t algorithm = CUBLAS_GEMM_DEFAULT;
  float one = 1, zero = 0;
  const void *alpha = &one, *beta = &zero;

  cublasStatus_t run() const {
    return cublasGemmEx(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type,
                        ldc, compute_type, algorithm);
  }
  void set_types(cudaDataType in, cudaDataType out) {
    a_type = b_type = in;
    c_type = out;
  }
};

void set_ints(const DeviceInts& memory, const std::vector<int>& values) {
  REQUIRE(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(int), cudaMemcpyDefault) ==
          cudaSuccess);
}
/// The same f32 in all `count` places.
void set_floats(const DeviceInts& memory, float value, std::size_t count) {
  int bits;
  std::memcpy(&bits, &value, sizeof bits);
  set_ints(memory, std::vector<int>(count, bits));
}
float float_at(const DeviceInts& memory, std::size_t i = 0) {
  float value = 0;
  peek(&value, memory.get() + i, sizeof value);
  return value;
}

std::vector<std::string> found_reports;

/// The reports during body() and until the devices are idle. Sticky errors are forgiven.
template <class Body>
std::vector<std::string> reports_of(const Body& body) {
  found_reports.clear();
  const ReportHandler previous =
      set_report_handler([](const std::string& text) { found_reports.push_back(text); });
  body();
  cudaDeviceSynchronize();
  set_report_handler(previous);
  forgive_sticky_errors();
  cudaGetLastError();
  return found_reports;
}

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
  CHECK(reports_of([&] {
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
  CHECK(reports_of([&] {
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
  CHECK(reports_of([&] { CHECK(gemm.run() == CUBLAS_STATUS_SUCCESS); }).size() == 1);
}

/// Products in two streams, by two handles with one workspace.
void share_a_workspace(bool resets) {
  const DeviceInts a(64), b(64), c(16), d(16), workspace(4096);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const OwnStream one, two;
  const OwnHandle first, second;
  REQUIRE(cublasSetStream(first, one) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetStream(second, two) == CUBLAS_STATUS_SUCCESS);
  for (const cublasHandle_t handle : {cublasHandle_t{first}, cublasHandle_t{second}}) {
    REQUIRE(cublasSetWorkspace(handle, workspace.get(), 16 << 10) == CUBLAS_STATUS_SUCCESS);
  }
  if (resets) REQUIRE(cublasSetStream(second, two) == CUBLAS_STATUS_SUCCESS);
  CHECK(Gemm{first, a.get(), b.get(), c.get()}.run() == CUBLAS_STATUS_SUCCESS);
  CHECK(Gemm{second, a.get(), b.get(), d.get()}.run() == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("a workspace belongs to one stream at a time, and cublasSetStream takes it from the handle") {
  for_each_schedule([] {
    const std::vector<std::string> reports = reports_of([] { share_a_workspace(false); });
    REQUIRE(reports.size() == 1);
    CHECK_THAT(reports[0], ContainsSubstring("is not ordered after cublasGemmEx") &&
                               ContainsSubstring("both touch 16384 bytes of allocation #"));
    CHECK(reports_of([] { share_a_workspace(true); }).empty());
  });
}

TEST_CASE("a workspace of less than 16 KiB may be too small") {
  const OwnHandle handle;
  const DeviceInts a(64), b(64), c(16), workspace(4096);
  const Gemm gemm{handle, a.get(), b.get(), c.get()};
  REQUIRE(cublasSetWorkspace(handle, workspace.get(), 8 << 10) == CUBLAS_STATUS_SUCCESS);
  CHECK(gemm.run() == CUBLAS_STATUS_ALLOC_FAILED);
  REQUIRE(cublasSetWorkspace(handle, nullptr, 0) == CUBLAS_STATUS_SUCCESS);
  CHECK(gemm.run() == CUBLAS_STATUS_ALLOC_FAILED);
  REQUIRE(cublasSetWorkspace(handle, workspace.get(), 16 << 10) == CUBLAS_STATUS_SUCCESS);
  CHECK(gemm.run() == CUBLAS_STATUS_SUCCESS);
}

/// The report of a product, which must succeed, leave C as it is, and fail the device with this error.
std::string report_of(const Gemm& gemm, const DeviceInts& c, cudaError_t expected) {
  set_floats(c, 7, 16);
  const std::vector<std::string> reports = reports_of([&] {
    CHECK(gemm.run() == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaDeviceSynchronize() == expected);
  });
  CHECK(float_at(c) == 7);
  REQUIRE(reports.size() == 1);
  return reports[0];
}

TEST_CASE("operands that a GPU could not access are reported, and fail the device") {
  const FirstDeviceAfterwards afterwards;
  const OwnHandle handle;
  const DeviceInts a(64), b(64), c(16), workspace(4096);
  const Gemm good{handle, a.get(), b.get(), c.get()};
  const auto spoiled = [&](const std::function<void(Gemm&)>& spoil) {
    Gemm gemm = good;
    gemm.alpha = &good.one, gemm.beta = &good.zero;
    spoil(gemm);
    return report_of(gemm, c, cudaErrorIllegalAddress);
  };
  float host[64] = {};
  CHECK_THAT(spoiled([&](Gemm& g) { g.a = host; }),
             ContainsSubstring("cublasGemmEx (queued in ") && ContainsSubstring("cublas_test.cpp") &&
                 ContainsSubstring("needs 128 bytes for A, which is host memory that is not pinned"));
  CHECK_THAT(spoiled([&](Gemm& g) { g.b = nullptr; }),
             ContainsSubstring("needs 32 bytes for B, which is null"));
  CHECK_THAT(spoiled([&](Gemm& g) { g.c = host; }), ContainsSubstring("needs 64 bytes for C, which is host"));
  // From the first element to the last, without a gap after the last column: 3 * 19 + 8 elements.
  CHECK_THAT(spoiled([&](Gemm& g) { g.lda = 19; }),
             ContainsSubstring("needs 260 bytes for A, which begins at byte 0 of allocation #") &&
                 ContainsSubstring("(256 bytes, cudaMalloc in ") && ContainsSubstring("which is too short"));
  CHECK_THAT(spoiled([&](Gemm& g) { g.c = c.get() + 1; }),
             ContainsSubstring("needs 64 bytes for C, which begins at byte 4 of allocation #"));
  {
    void* freed = nullptr;
    REQUIRE(cudaMallocAsync(&freed, 256, nullptr) == cudaSuccess);
    REQUIRE(cudaFreeAsync(freed, nullptr) == cudaSuccess);
    CHECK_THAT(spoiled([&](Gemm& g) { g.a = freed; }),
               ContainsSubstring("needs 128 bytes for A, which is freed: allocation #"));
  }
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const DeviceInts of_second(64);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK_THAT(spoiled([&](Gemm& g) { g.b = of_second.get(); }),
             ContainsSubstring("of device 1, the stream's device is 0"));
  CHECK_THAT(spoiled([&](Gemm& g) {
               REQUIRE(cublasSetWorkspace(g.handle, workspace.get(), 32 << 10) == CUBLAS_STATUS_SUCCESS);
             }),
             ContainsSubstring("needs 32768 bytes for the workspace, which begins at byte 0"));
  REQUIRE(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_SUCCESS);
  Gemm misaligned = good;
  misaligned.alpha = &good.one, misaligned.beta = &good.zero;
  misaligned.b = reinterpret_cast<const char*>(b.get()) + 2;
  CHECK_THAT(report_of(misaligned, c, cudaErrorMisalignedAddress),
             ContainsSubstring("for B, which is not at a multiple of 4 bytes"));
  CHECK(reports_of([&] { CHECK(good.run() == CUBLAS_STATUS_SUCCESS); }).empty());
}

TEST_CASE(
    "a result that overlaps with an operand is reported, a result between an operand's columns is not") {
  const OwnHandle handle;
  const DeviceInts a(64), b(64), c(64);
  for (const DeviceInts* memory : {&a, &b, &c}) set_floats(*memory, 0, 64);
  const auto reports = [&](const void* at_a, int lda, const void* at_b, void* at_c, int ldc) {
    std::string all;
    for (const std::string& text : reports_of([&] {
           Gemm gemm{handle, at_a, at_b, at_c};
           gemm.lda = lda, gemm.ldc = ldc;
           CHECK(gemm.run() == CUBLAS_STATUS_SUCCESS);
         })) {
      all += text + "\n";
    }
    return all;
  };
  CHECK(reports(a.get(), 8, b.get(), c.get(), 8).empty());
  CHECK_THAT(reports(a.get(), 8, b.get(), a.get() + 31, 8),  // the last element of A
             ContainsSubstring("cublasGemmEx (queued in") && ContainsSubstring("C overlaps with A"));
  CHECK(reports(a.get(), 8, b.get(), a.get() + 32, 8).empty());
  CHECK_THAT(reports(a.get(), 8, b.get(), b.get() + 7, 8), ContainsSubstring("C overlaps with B"));
  CHECK(reports(a.get(), 8, b.get() + 16, b.get(), 8).empty());
  // Columns of 8 in turns of 16: C's are between A's, or begin with the last element of A's.
  CHECK(reports(a.get(), 16, b.get(), a.get() + 8, 16).empty());
  CHECK_THAT(reports(a.get(), 16, b.get(), a.get() + 7, 16), ContainsSubstring("C overlaps with A"));
}

TEST_CASE("the work before a product that fails is done, the work after it is not") {
  for_each_schedule([] {
    const OwnHandle handle;
    const OwnStream stream;
    REQUIRE(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
    const float host[64] = {};
    const DeviceInts b(64), c(16);
    bool before = false, after = false;
    CHECK(reports_of([&] {
            REQUIRE(launch_on(stream, [&] { before = true; }) == cudaSuccess);
            CHECK(Gemm{handle, host, b.get(), c.get()}.run() == CUBLAS_STATUS_SUCCESS);
            launch_on(stream, [&] { after = true; });
            CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
          }).size() == 1);
    CHECK(before);
    CHECK_FALSE(after);
  });
}

TEST_CASE("operands may be in pinned memory, or in memory of the graph that is being captured") {
  for_each_schedule([] {
    const OwnHandle handle;
    const OwnStream stream;
    REQUIRE(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
    const PinnedInts a(32), c(16);
    const DeviceInts b(8);
    const float one = 1;
    for (int i = 0; i < 32; ++i) std::memcpy(a.get() + i, &one, sizeof one);
    set_floats(b, 2, 8);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(reports_of([&] {
            CHECK(Gemm{handle, a.get(), b.get(), c.get()}.run() == CUBLAS_STATUS_SUCCESS);
            REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
          }).empty());
    float found = 0;
    std::memcpy(&found, c.get(), sizeof found);
    CHECK(found == 8);

    const DeviceInts out(16);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CHECK(reports_of([&] {
            REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
            void* inside = nullptr;
            REQUIRE(cudaMallocAsync(&inside, 128, stream) == cudaSuccess);
            REQUIRE(cudaMemsetAsync(inside, 0, 128, stream) == cudaSuccess);
            CHECK(Gemm{handle, inside, b.get(), out.get()}.run() == CUBLAS_STATUS_SUCCESS);
            REQUIRE(cudaFreeAsync(inside, stream) == cudaSuccess);
            REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
            REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
            REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
            REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
          }).empty());
    CHECK(float_at(out) == 0);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  });
}

}  // namespace
}  // namespace gpu_model::test
