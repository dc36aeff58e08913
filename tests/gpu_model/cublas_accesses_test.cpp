// cuBLAS as its reference describes it: the workspace, and accesses that a GPU would refuse.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu_model/gemm_call.h"
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

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
    const std::vector<std::string> reports = each_report_of([] { share_a_workspace(false); });
    REQUIRE(reports.size() == 1);
    CHECK_THAT(reports[0], ContainsSubstring("is not ordered after cublasGemmEx") &&
                               ContainsSubstring("both touch 16384 bytes of allocation #"));
    CHECK(each_report_of([] { share_a_workspace(true); }).empty());
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
  const std::vector<std::string> reports = each_report_of([&] {
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
             ContainsSubstring("cublasGemmEx (queued in ") && ContainsSubstring("gemm_call.h") &&
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
  CHECK(each_report_of([&] { CHECK(good.run() == CUBLAS_STATUS_SUCCESS); }).empty());
}

TEST_CASE(
    "a result that overlaps with an operand is reported, a result between an operand's columns is not") {
  const OwnHandle handle;
  const DeviceInts a(64), b(64), c(64);
  for (const DeviceInts* memory : {&a, &b, &c}) set_floats(*memory, 0, 64);
  const auto reports = [&](const void* at_a, int lda, const void* at_b, void* at_c, int ldc) {
    std::string all;
    for (const std::string& text : each_report_of([&] {
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
    CHECK(each_report_of([&] {
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
    CHECK(each_report_of([&] {
            CHECK(Gemm{handle, a.get(), b.get(), c.get()}.run() == CUBLAS_STATUS_SUCCESS);
            REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
          }).empty());
    float found = 0;
    std::memcpy(&found, c.get(), sizeof found);
    CHECK(found == 8);

    const DeviceInts out(16);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CHECK(each_report_of([&] {
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
