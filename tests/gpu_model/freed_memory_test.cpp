// Memory that is used after it was freed, in the order of the calls.
#include "tests/gpu_model/support.h"
#include "tests/support/text.h"

namespace gpu_model::test {
namespace {

TEST_CASE("a kernel that gets freed memory is reported with the former allocation") {
  for_each_schedule([] {
    const OwnStream stream;
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, 1000) == cudaSuccess);
    REQUIRE(cudaFree(memory) == cudaSuccess);
    const std::string found =
        reports_of([&] { CHECK(use_in_kernel(stream, static_cast<char*>(memory) + 100) == cudaSuccess); });
    CHECK_THAT(found, ContainsSubstring("any_kernel on stream") && ContainsSubstring("support.h") &&
                          ContainsSubstring("uses memory that has been freed:\n  allocation #") &&
                          ContainsSubstring(" (1000 bytes, cudaMalloc in") &&
                          ContainsSubstring("freed by cudaFree in") &&
                          ContainsSubstring("freed_memory_test.cpp"));
    CHECK(ringtape::test::count(found, "uses memory") == 1);
  });
}

TEST_CASE("a kernel that gets memory freed in the order of its stream is reported") {
  for_each_schedule([] {
    const OwnStream stream;
    void* memory = nullptr;
    REQUIRE(cudaMallocAsync(&memory, 1000, stream) == cudaSuccess);
    CHECK(reports_of([&] { CHECK(use_in_kernel(stream, memory) == cudaSuccess); }).empty());
    REQUIRE(cudaFreeAsync(memory, stream) == cudaSuccess);
    CHECK_THAT(reports_of([&] { CHECK(use_in_kernel(stream, memory) == cudaSuccess); }),
               ContainsSubstring("uses memory that has been freed") &&
                   ContainsSubstring(" (1000 bytes, cudaMallocAsync on stream") &&
                   ContainsSubstring("freed by cudaFreeAsync in"));
  });
}

TEST_CASE("memory is still known to be freed after its return to the system") {
  const OwnStream stream;
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, std::size_t{64} << 20) == cudaSuccess);
  REQUIRE(cudaFree(memory) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK_THAT(reports_of([&] { CHECK(use_in_kernel(stream, memory) == cudaSuccess); }),
             ContainsSubstring("uses memory that has been freed"));
}

TEST_CASE("a pointer to the end of an allocation is not a use of the next one") {
  const OwnStream stream;
  void* first = nullptr;
  void* second = nullptr;
  REQUIRE(cudaMallocAsync(&first, 512, stream) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&second, 512, stream) == cudaSuccess);
  const void* const end = static_cast<char*>(first) + 512;
  REQUIRE(second == end);
  REQUIRE(cudaFreeAsync(second, stream) == cudaSuccess);
  CHECK(reports_of([&] {
          CHECK(launch({entry(), {}, {}, 0, stream}, new Body([] {}, {first, end})) == cudaSuccess);
        }).empty());
  REQUIRE(cudaFreeAsync(first, stream) == cudaSuccess);
}

/// A graph of a memset and a kernel on `memory`.
cudaGraphExec_t graph_on(cudaStream_t stream, void* memory, std::size_t bytes) {
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(memory, 1, bytes, stream) == cudaSuccess);
  REQUIRE(use_in_kernel(stream, memory) == cudaSuccess);
  return end_and_instantiate(stream);
}

TEST_CASE("a graph launched after the free of memory that it uses is reported for each operation") {
  for_each_schedule([] {
    const OwnStream stream;
    void* memory = nullptr;
    REQUIRE(cudaMallocAsync(&memory, 1000, stream) == cudaSuccess);
    const cudaGraphExec_t graph = graph_on(stream, memory, 1000);
    CHECK(reports_of([&] { CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess); }).empty());
    REQUIRE(cudaFreeAsync(memory, stream) == cudaSuccess);
    const std::string found = reports_of([&] { CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess); });
    CHECK_THAT(found, ContainsSubstring("cudaMemsetAsync in a graph, captured on stream") &&
                          ContainsSubstring("any_kernel in a graph, captured on stream") &&
                          ContainsSubstring("(1000 bytes, cudaMallocAsync on stream"));
    CHECK(ringtape::test::count(found, "uses memory that has been freed") == 2);
    REQUIRE(cudaGraphExecDestroy(graph) == cudaSuccess);
  });
}

TEST_CASE("a graph that would write to a later allocation at its own address is reported, and does not") {
  for_each_schedule([] {
    const OwnStream stream;
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, 512) == cudaSuccess);
    const cudaGraphExec_t graph = graph_on(stream, memory, 512);
    REQUIRE(cudaFree(memory) == cudaSuccess);
    const DeviceInts later(128);
    REQUIRE(later.get() == memory);
    REQUIRE(cudaMemset(later.get(), 0, 512) == cudaSuccess);
    const std::string found = reports_of([&] { CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess); });
    CHECK(ringtape::test::count(found, "uses memory that has been freed") == 2);
    CHECK(value_of(later.get()) == 0);
    REQUIRE(cudaGraphExecDestroy(graph) == cudaSuccess);
  });
}

TEST_CASE("a graph that copies from pinned memory is reported once the memory is freed") {
  for_each_schedule([] {
    const OwnStream stream;
    const DeviceInts x(4);
    void* buffer = nullptr;
    REQUIRE(cudaMallocHost(&buffer, 16) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(x.get(), buffer, 16, cudaMemcpyHostToDevice, stream) == cudaSuccess);
    const cudaGraphExec_t graph = end_and_instantiate(stream);
    CHECK(reports_of([&] { CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess); }).empty());
    REQUIRE(cudaFreeHost(buffer) == cudaSuccess);
    CHECK_THAT(reports_of([&] { CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess); }),
               ContainsSubstring("cudaMemcpyAsync in a graph, captured on stream") &&
                   ContainsSubstring("uses memory that has been freed:\n  pinned memory (16 bytes, "
                                     "cudaMallocHost in") &&
                   ContainsSubstring("freed_memory_test.cpp"));
    REQUIRE(cudaGraphExecDestroy(graph) == cudaSuccess);
  });
}

}  // namespace
}  // namespace gpu_model::test
