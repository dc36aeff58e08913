// cuBLASLt as the cuBLAS reference describes it, and Ringtape's use of it.
#include <cublasLt.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/stream.h"
#include "gpu_model/runtime/engine.h"
#include "kernels/gemm.h"
#include "tests/gpu_model/support.h"
#include "tests/support/tensors.h"

namespace gpu_model::test {
namespace {

using namespace ringtape;

const Device kGpu{DeviceType::cuda, 0};

/// The names of the kernels and products that are queued while it exists, without namespaces and arguments.
struct Launches : Observer {
  Launches() { set_observer(this); }
  ~Launches() override { set_observer(nullptr); }
  void queued(std::uint64_t /*correlation*/, const Operation& operation) override {
    if (operation.kind != Kind::kernel) return;
    const std::string name = operation.name.substr(0, operation.name.find('<'));
    names.push_back(name.substr(name.rfind(':') + 1));
  }
  void finished(const Activity& /*activity*/) override {}
  std::vector<std::string> names;
};

struct RefusedEpilogues {
  RefusedEpilogues() { refuse_epilogues(true); }
  ~RefusedEpilogues() { refuse_epilogues(false); }
};

/// The output of a linear layer and ReLU, and the gradients of its input, weight and bias for the sum of the
/// squares of its output; the second time the gradients are added.
std::vector<std::vector<double>> train_twice(Device device, DType dtype) {
  const auto leaf = [&](std::int64_t seed, const ringtape::Shape& shape) {
    Tensor x = ringtape::test::tensor_of(ringtape::test::random_doubles(shape.elements(), seed), shape,
                                         DType::f32, device);
    return x.set_requires_grad(true);
  };
  const Tensor x = leaf(1, {6, 8}), weight = leaf(2, {8, 8}), bias = leaf(3, {8});  // aligned to 16 bytes
  Tensor y;
  for (int i = 0; i < 2; ++i) {
    y = to(linear_relu(to(x, dtype), to(weight, dtype), to(bias, dtype)), DType::f32);
    sum(multiply(y, y)).backward();
  }
  return {y.to_doubles(), x.grad().to_doubles(), weight.grad().to_doubles(), bias.grad().to_doubles()};
}

TEST_CASE(
    "a linear layer is one launch forward, one more with ReLU, and one for the gradients of weight and "
    "bias") {
  const Tensor x = ringtape::test::tensor_of(ringtape::test::random_doubles(30, 1), {6, 5}, DType::f32, kGpu);
  Tensor weight = ringtape::test::tensor_of(ringtape::test::random_doubles(15, 2), {3, 5}, DType::f32, kGpu);
  Tensor bias = zeros({3}, DType::f32, kGpu);
  weight.set_requires_grad(true);
  bias.set_requires_grad(true);
  const Tensor dy =
      ringtape::test::tensor_of(ringtape::test::random_doubles(18, 3), {6, 3}, DType::f32, kGpu);
  const auto launches = [&](bool with_relu = false) {
    const Launches found;
    Tape::current().backward(with_relu ? linear_relu(x, weight, bias) : linear(x, weight, bias), dy);
    return found.names;
  };
  using Names = std::vector<std::string>;
  CHECK(launches() == Names{"cublasLtMatmul", "cublasLtMatmul"});
  // The bias already has a gradient, to which another launch adds.
  CHECK(launches() == Names{"cublasLtMatmul", "cublasGemmEx", "sum_columns"});
  const auto forget_gradients = [&] { weight.autograd->grad_written = bias.autograd->grad_written = false; };
  forget_gradients();
  CHECK(launches(true) == Names{"cublasLtMatmul", "relu_forward", "relu_backward", "cublasLtMatmul"});
  const RefusedEpilogues refused;
  forget_gradients();
  CHECK(launches(true) == Names{"broadcast_rows", "cublasGemmEx", "relu_forward", "relu_backward",
                                "cublasGemmEx", "sum_columns"});
}

TEST_CASE("a linear layer and ReLU, with and without epilogues, agree with the CPU, in every schedule") {
  for_each_schedule([] {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const auto expected = train_twice({}, dtype), found = train_twice(kGpu, dtype);
      const double tolerance = dtype == DType::f32 ? 1e-5 : 2e-2;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ringtape::test::check_close(found[i], expected[i], tolerance, tolerance);
      }
      const RefusedEpilogues refused;
      const auto separate = train_twice(kGpu, dtype);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ringtape::test::check_close(separate[i], expected[i], tolerance, tolerance);
      }
    }
  });
}

TEST_CASE("products of parts of tensors, at any alignment") {
  const Tensor memory =
      ringtape::test::tensor_of(ringtape::test::random_doubles(100, 1), {100}, DType::f32, kGpu);
  const Tensor out = zeros({9}, DType::f32, kGpu);
  const std::vector<double> values = memory.to_doubles();
  for (const std::int64_t offset : {0, 1, 2, 5}) {
    GemmArgs args{.m = 2, .n = 3, .k = 4};
    args.a = memory.data<float>() + offset;
    args.b = memory.data<float>() + 20 + offset;
    args.bias = memory.data<float>() + 50 + offset;
    args.c = out.data<float>() + offset % 3;
    gemm(Stream::current(kGpu), args);
    const std::vector<double> found = out.to_doubles();
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        double expected = values[50 + offset + j];
        for (std::int64_t p = 0; p < 4; ++p) {
          expected += values[offset + 4 * i + p] * values[20 + offset + 3 * p + j];
        }
        CHECK(ringtape::test::is_close(found[offset % 3 + 3 * i + j], expected, 1e-5, 1e-6));
      }
    }
  }
}

/// A product of cuBLASLt that a test can spoil: D [3, 2] = A [3, 4] B [4, 2] in columns, with a bias.
struct Call {
  Call() {
    cudaMalloc(reinterpret_cast<void**>(&memory), 4096);
    cudaMemset(memory, 0, 4096);
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, 3, 4, 3);
    cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, 4, 2, 4);
    cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, 3, 2, 3);
    set_epilogue(CUBLASLT_EPILOGUE_BIAS);
    set_bias(memory + 256);
    const std::uint64_t bytes = 1024;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                         sizeof bytes);
  }
  ~Call() {
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(d);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(operation);
    cublasLtDestroy(handle);
    cudaFree(memory);
  }
  void set_epilogue(std::uint32_t epilogue) {
    cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  }
  void set_bias(float* bias) {
    cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  }
  cublasStatus_t choose() {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, d, d, preference, 1, &found, &count);
  }
  cublasStatus_t run(std::size_t workspace_bytes = 1024, std::ptrdiff_t shift = 0) {
    const float one = 1, zero = 0;
    float* const c = memory + 192 + shift;
    return cublasLtMatmul(handle, operation, &one, memory, a, memory + 64, b, &zero, c, d, c, d, &found.algo,
                          memory + 512, workspace_bytes, nullptr);
  }

  float* memory = nullptr;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulHeuristicResult_t found{};
};

TEST_CASE("a bf16 product with a bias is rounded twice where a column is not aligned to 16 bytes") {
  for (const std::int64_t ld : {8, 9}) {
    // Each row of A is 1, 2^-8, 0, ...; B is 1 and the bias 2^-8. The product, 1 + 2^-8, is between two
    // bfloat16s, and rounds to 1.
    std::vector<double> values(static_cast<std::size_t>(8 * ld));
    for (std::int64_t i = 0; i < 8; ++i) values[i] = 1, values[ld + i] = 0x1p-8;
    const Tensor a = ringtape::test::tensor_of(values, {8 * ld}, DType::bf16, kGpu);
    const Tensor b = full({2 * ld}, 1, DType::bf16, kGpu), bias = full({8}, 0x1p-8, DType::bf16, kGpu);
    const Tensor d = zeros({2 * ld}, DType::bf16, kGpu);
    Call call;
    for (const auto& [layout, columns] :
         {std::pair{&call.a, 8}, std::pair{&call.b, 2}, std::pair{&call.d, 2}}) {
      cublasLtMatrixLayoutDestroy(*layout);
      cublasLtMatrixLayoutCreate(layout, CUDA_R_16BF, 8, static_cast<std::uint64_t>(columns), ld);
    }
    call.set_bias(static_cast<float*>(bias.raw()));
    REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
    cudaDeviceSynchronize();  // the workspace was cleared in another stream
    const float one = 1, zero = 0;
    REQUIRE(cublasLtMatmul(call.handle, call.operation, &one, a.raw(), call.a, b.raw(), call.b, &zero,
                           d.raw(), call.d, d.raw(), call.d, &call.found.algo, call.memory + 512, 1024,
                           static_cast<cudaStream_t>(Stream::current(kGpu).native())) ==
            CUBLAS_STATUS_SUCCESS);
    CHECK(d.to_doubles().front() == (ld == 8 ? 1 + 0x1p-7 : 1));
  }
}

TEST_CASE("cuBLASLt's documented errors") {
  {
    Call good;
    REQUIRE(good.choose() == CUBLAS_STATUS_SUCCESS);
    CHECK(good.found.workspaceSize == 1024);
    CHECK(good.run() == CUBLAS_STATUS_SUCCESS);
    CHECK(good.run(512) == CUBLAS_STATUS_INVALID_VALUE);         // less workspace than the algorithm takes
    CHECK(good.run(1024, 1) == CUBLAS_STATUS_EXECUTION_FAILED);  // not aligned to the 256 bytes of the choice
    good.set_bias(nullptr);
    CHECK(good.choose() == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(good.run() == CUBLAS_STATUS_INVALID_VALUE);
  }
  {
    Call other;
    other.set_epilogue(32);  // GELU, which Ringtape does not use
    CHECK(other.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
    const std::uint64_t wide = CUBLASLT_EPILOGUE_BIAS;
    CHECK(cublasLtMatmulDescSetAttribute(other.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &wide,
                                         sizeof wide) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(cublasLtMatmulDescSetAttribute(other.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, nullptr, 4) ==
          CUBLAS_STATUS_INVALID_VALUE);
  }
  struct Layout {
    cudaDataType type;
    std::uint64_t rows, columns;
    std::int64_t ld;
    cublasStatus_t expected;
  };
  for (const Layout& layout : {Layout{CUDA_R_32F, 3, 2, 2, CUBLAS_STATUS_INVALID_VALUE},  // columns overlap
                               Layout{CUDA_R_32F, 2, 2, 2, CUBLAS_STATUS_INVALID_VALUE},  // not op(A)'s rows
                               Layout{CUDA_R_16BF, 3, 2, 3, CUBLAS_STATUS_NOT_SUPPORTED}}) {
    Call call;
    cublasLtMatrixLayoutDestroy(call.d);
    cublasLtMatrixLayoutCreate(&call.d, layout.type, layout.rows, layout.columns, layout.ld);
    CHECK(call.choose() == layout.expected);
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("cuBLASLt's errors of handles and descriptors that do not exist") {
  constexpr auto invalid = CUBLAS_STATUS_INVALID_VALUE;
  CHECK(cublasLtCreate(nullptr) == invalid);
  CHECK(cublasLtDestroy(nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasLtMatmulDescCreate(nullptr, CUBLAS_COMPUTE_32F, CUDA_R_32F) == invalid);
  CHECK(cublasLtMatrixLayoutCreate(nullptr, CUDA_R_32F, 3, 4, 3) == invalid);
  CHECK(cublasLtMatmulPreferenceCreate(nullptr) == invalid);
  CHECK(cublasLtMatmulDescDestroy(nullptr) == CUBLAS_STATUS_SUCCESS);
  const std::uint64_t bytes = 0;
  CHECK(cublasLtMatmulPreferenceSetAttribute(nullptr, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                             sizeof bytes) == invalid);
  const std::int32_t op = CUBLAS_OP_T;
  CHECK(cublasLtMatmulDescSetAttribute(nullptr, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof op) == invalid);

  Call call;
  cublasLtHandle_t destroyed = nullptr;
  REQUIRE(cublasLtCreate(&destroyed) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtDestroy(destroyed) == CUBLAS_STATUS_SUCCESS);
  const auto choose = [&](cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                          cublasLtMatmulPreference_t preference, int requested,
                          cublasLtMatmulHeuristicResult_t* results) {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, call.b, call.d, call.d, preference, requested,
                                          results, &count);
  };
  const auto [memory, handle, operation, preference, a, b, d, found] = call;
  cublasLtMatmulHeuristicResult_t result;
  CHECK(choose(handle, operation, a, preference, 1, &result) == CUBLAS_STATUS_SUCCESS);
  CHECK(choose(nullptr, operation, a, preference, 1, &result) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(choose(destroyed, operation, a, preference, 1, &result) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(choose(handle, nullptr, a, preference, 1, &result) == invalid);
  CHECK(choose(handle, operation, nullptr, preference, 1, &result) == invalid);
  CHECK(choose(handle, operation, a, nullptr, 1, &result) == invalid);
  CHECK(choose(handle, operation, a, preference, 0, &result) == invalid);
  CHECK(choose(handle, operation, a, preference, 1, nullptr) == invalid);

  const float one = 1;
  const auto run = [&](cublasLtMatmulDesc_t with, cublasLtMatrixLayout_t a_layout, const float* alpha,
                       const cublasLtMatmulAlgo_t* algorithm, float* workspace) {
    return cublasLtMatmul(handle, with, alpha, memory, a_layout, memory + 64, b, &one, memory + 192, d,
                          memory + 192, d, algorithm, workspace, 1024, nullptr);
  };
  float* const workspace = memory + 512;
  CHECK(run(operation, a, &one, &result.algo, workspace) == CUBLAS_STATUS_SUCCESS);
  CHECK(run(nullptr, a, &one, &result.algo, workspace) == invalid);
  CHECK(run(operation, nullptr, &one, &result.algo, workspace) == invalid);
  CHECK(run(operation, a, nullptr, &result.algo, workspace) == invalid);
  CHECK(run(operation, a, &one, nullptr, workspace) == invalid);
  CHECK(run(operation, a, &one, &result.algo, workspace + 4) == invalid);  // not a multiple of 256 bytes
  cublasLtMatrixLayout_t gone = nullptr;
  REQUIRE(cublasLtMatrixLayoutCreate(&gone, CUDA_R_32F, 3, 4, 3) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatrixLayoutDestroy(gone) == CUBLAS_STATUS_SUCCESS);
  CHECK(run(operation, gone, &one, &result.algo, workspace) == invalid);
  const std::int32_t no_op = 77;
  REQUIRE(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &no_op, sizeof no_op) ==
          CUBLAS_STATUS_SUCCESS);  // which cuBLASLt notices when it is used
  CHECK(run(operation, a, &one, &result.algo, workspace) == invalid);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("cuBLASLt: vectors and workspaces that a GPU could not access are reported, and fail the device") {
  const auto report_of = [](const auto& body) {
    const std::vector<std::string> reports = each_report_of([&] {
      body();
      CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    });
    REQUIRE_FALSE(reports.empty());
    return reports.back();
  };
  Call call;
  alignas(256) float host[512] = {};
  call.set_bias(host);
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK_THAT(report_of([&] { CHECK(call.run() == CUBLAS_STATUS_SUCCESS); }),
             ContainsSubstring("cublasLtMatmul (queued in ") &&
                 ContainsSubstring("needs 12 bytes for the bias, which is host memory that is not pinned"));
  call.set_epilogue(CUBLASLT_EPILOGUE_BGRADB);
  CHECK_THAT(report_of([&] { CHECK(call.run() == CUBLAS_STATUS_SUCCESS); }),
             ContainsSubstring("needs 8 bytes for the bias' gradient, which is host memory"));
  call.set_bias(call.memory + 256);
  const float one = 1;
  CHECK_THAT(report_of([&] {
               CHECK(cublasLtMatmul(call.handle, call.operation, &one, call.memory, call.a, call.memory + 64,
                                    call.b, &one, call.memory + 192, call.d, call.memory + 192, call.d,
                                    &call.found.algo, host, sizeof host, nullptr) == CUBLAS_STATUS_SUCCESS);
             }),
             ContainsSubstring("needs 1024 bytes for the workspace, which is host memory"));
}

/// C of a 3 x 8 by 8 x 8 product with this epilogue, or the bias' gradient, where one of A, B and the bias is
/// uninitialised.
std::vector<double> poisoned(DType dtype, DType out_dtype, std::uint32_t epilogue, int which) {
  const auto operand = [&](int number, const ringtape::Shape& shape, DType type) {
    return number == which ? empty(shape, type, kGpu) : zeros(shape, type, kGpu);
  };
  const Tensor a = operand(0, {3, 8}, dtype), b = operand(1, {8, 8}, dtype),
               bias = operand(2, {8}, out_dtype);
  const Tensor c = zeros({3, 8}, out_dtype, kGpu), sums = zeros({3}, out_dtype, kGpu);
  GemmArgs args{.m = 3, .n = 8, .k = 8};
  args.dtype = dtype, args.out_dtype = out_dtype;
  args.a = a.raw(), args.b = b.raw(), args.c = c.raw();
  if (epilogue == CUBLASLT_EPILOGUE_BIAS) args.bias = bias.raw();
  if (epilogue == CUBLASLT_EPILOGUE_BGRADB) args.a_sums = sums.raw();
  const Launches launches;
  gemm(Stream::current(kGpu), args);
  CHECK(launches.names == std::vector<std::string>{"cublasLtMatmul"});
  return epilogue == CUBLASLT_EPILOGUE_BGRADB && which == 0 ? sums.to_doubles() : c.to_doubles();
}

TEST_CASE("uninitialised memory makes a product NaN, with every epilogue") {
  struct Types {
    DType in, out;
  };
  for (const auto& [in, out] : {Types{DType::f32, DType::f32}, Types{DType::f16, DType::f16},
                                Types{DType::bf16, DType::bf16}, Types{DType::bf16, DType::f32}}) {
    for (const std::uint32_t epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADB}) {
      for (int which = 0; which < (epilogue == CUBLASLT_EPILOGUE_BIAS ? 3 : 2); ++which) {
        INFO(name_of(in) << " to " << name_of(out) << ", epilogue " << epilogue << ", operand " << which);
        for (const double value : poisoned(in, out, epilogue, which)) CHECK(std::isnan(value));
        if (in != DType::f32) continue;
        const bool before = tf32(kGpu);
        set_tf32(true, kGpu);
        for (const double value : poisoned(in, out, epilogue, which)) CHECK(std::isnan(value));
        set_tf32(before, kGpu);
      }
    }
  }
}

}  // namespace
}  // namespace gpu_model::test
