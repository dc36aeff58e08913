// Memory that a graph allocates: CUDA Runtime API reference, cudaGraphAddMemAllocNode; CUDA C++ Programming
// Guide, "Graph Memory Nodes".
#include <functional>

#include "tests/gpu_model/support.h"
#include "tests/support/text.h"

namespace gpu_model::test {
namespace {

struct Captured {
  cudaGraphExec_t graph;
  void* memory;
};

enum class Frees { nowhere, in_graph };

/// A graph that allocates, fills and perhaps frees memory.
Captured capture_memory(cudaStream_t stream, std::size_t bytes, Frees frees) {
  void* memory = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&memory, bytes, stream) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(memory, 1, bytes, stream) == cudaSuccess);
  if (frees == Frees::in_graph) REQUIRE(cudaFreeAsync(memory, stream) == cudaSuccess);
  return {end_and_instantiate(stream), memory};
}

TEST_CASE("memory that a graph allocates can be freed only after a launch, by either free") {
  for_each_schedule([] {
    const OwnStream stream;
    const Captured captured = capture_memory(stream, 512, Frees::nowhere);
    for (int time = 0; time < 2; ++time) {
      CHECK(cudaFree(captured.memory) == cudaErrorInvalidValue);
      CHECK(cudaFreeAsync(captured.memory, stream) == cudaErrorInvalidValue);
      REQUIRE(cudaGraphLaunch(captured.graph, stream) == cudaSuccess);
      CHECK((time == 0 ? cudaFree(captured.memory) : cudaFreeAsync(captured.memory, stream)) == cudaSuccess);
    }
    REQUIRE(cudaGraphExecDestroy(captured.graph) == cudaSuccess);
    cudaGetLastError();
  });
}

TEST_CASE("memory of graphs returns to the device when they are destroyed") {
  for_each_schedule([] {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const OwnStream stream;
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const std::size_t before = live_bytes(), objects = live_objects().size();
    std::size_t free_before = 0, free = 0, total = 0;
    for (int time = 0; time < 50; ++time) {
      const Captured captured = capture_memory(stream, kBytes, Frees::in_graph);
      CHECK(live_bytes() == before);  // no allocation between the launches
      REQUIRE(cudaGraphLaunch(captured.graph, stream) == cudaSuccess);
      REQUIRE(cudaGraphExecDestroy(captured.graph) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
      REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
      if (time == 0) free_before = free;
    }
    CHECK(free == free_before);
    CHECK(live_bytes() == before);
    CHECK(live_objects().size() == objects);
  });
}

TEST_CASE("memory of a graph that is still allocated outlives the graph, and can be freed") {
  for_each_schedule([] {
    const OwnStream stream;
    const std::size_t before = live_bytes();
    const Captured captured = capture_memory(stream, 512, Frees::nowhere);
    REQUIRE(cudaGraphLaunch(captured.graph, stream) == cudaSuccess);
    CHECK(live_bytes() == before + 512);
    REQUIRE(cudaGraphExecDestroy(captured.graph) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(value_of(static_cast<int*>(captured.memory)) == 0x01010101);
    CHECK(cudaFreeAsync(captured.memory, stream) == cudaSuccess);
    CHECK(cudaFreeAsync(captured.memory, stream) == cudaErrorInvalidValue);
    CHECK(live_bytes() == before);
    cudaGetLastError();
  });
}

TEST_CASE("a graph that allocates or frees has one executable at a time, other graphs have any number") {
  const OwnStream stream;
  const auto executables_of = [&](const std::function<void()>& work) {
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    work();
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    cudaGraphExec_t first = nullptr, second = nullptr;
    REQUIRE(cudaGraphInstantiate(&first, graph, 0) == cudaSuccess);
    const cudaError_t error = cudaGraphInstantiate(&second, graph, 0);
    CHECK(cudaGraphExecDestroy(first) == cudaSuccess);
    if (error == cudaSuccess) {
      CHECK(cudaGraphExecDestroy(second) == cudaSuccess);
    } else {
      cudaGetLastError();
      CHECK(cudaGraphInstantiate(&second, graph, 0) == cudaSuccess);  // the first is gone
      CHECK(cudaGraphExecDestroy(second) == cudaSuccess);
    }
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    return error;
  };
  const DeviceInts x;
  CHECK(executables_of([&] { REQUIRE(cudaMemsetAsync(x.get(), 1, sizeof(int), stream) == cudaSuccess); }) ==
        cudaSuccess);
  CHECK(executables_of([&] {
          void* memory = nullptr;
          REQUIRE(cudaMallocAsync(&memory, 512, stream) == cudaSuccess);
          REQUIRE(cudaFreeAsync(memory, stream) == cudaSuccess);
        }) == cudaErrorInvalidValue);
}

TEST_CASE("memory of a capture that fails returns to the device too") {
  const OwnStream stream;
  const std::size_t before = live_bytes();
  void* memory = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&memory, 512, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
  CHECK(live_bytes() == before);
  CHECK_THAT(reports_of([&] { CHECK(use_in_kernel(stream, memory) == cudaSuccess); }),
             ContainsSubstring("uses memory that has been freed"));
}

TEST_CASE("unordered fills of memory that their graph allocates are reported") {
  const auto found = [](bool joins) {
    return reports_of([&] {
      const OwnStream a, b;
      const OwnEvent fork, filled;
      void* memory = nullptr;
      REQUIRE(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
      REQUIRE(cudaMallocAsync(&memory, 512, a) == cudaSuccess);
      REQUIRE(cudaEventRecord(fork, a) == cudaSuccess);
      REQUIRE(cudaStreamWaitEvent(b, fork) == cudaSuccess);
      REQUIRE(cudaMemsetAsync(memory, 0, 512, b) == cudaSuccess);
      REQUIRE(cudaEventRecord(filled, b) == cudaSuccess);
      if (joins) REQUIRE(cudaStreamWaitEvent(a, filled) == cudaSuccess);
      REQUIRE(cudaMemsetAsync(memory, 1, 512, a) == cudaSuccess);
      if (!joins) REQUIRE(cudaStreamWaitEvent(a, filled) == cudaSuccess);
      REQUIRE(cudaFreeAsync(memory, a) == cudaSuccess);
      const cudaGraphExec_t graph = end_and_instantiate(a);
      REQUIRE(cudaGraphLaunch(graph, a) == cudaSuccess);
      REQUIRE(cudaGraphLaunch(graph, b) == cudaSuccess);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      REQUIRE(cudaGraphExecDestroy(graph) == cudaSuccess);
    });
  };
  for_each_schedule([&] {
    CHECK(found(true).empty());
    const std::string text = found(false);
    CHECK_THAT(text, ContainsSubstring("both touch 512 bytes of allocation #") &&
                         ContainsSubstring("The graph has no edge between them"));
    CHECK(ringtape::test::count(text, "is not ordered after") == 2);  // in each launch
  });
}

TEST_CASE("memory that a graph has freed, or not yet allocated, is reported where it is used") {
  for_each_schedule([] {
    const OwnStream stream;
    const Captured captured = capture_memory(stream, 512, Frees::in_graph);
    CHECK_THAT(reports_of([&] { CHECK(use_in_kernel(stream, captured.memory) == cudaSuccess); }),
               ContainsSubstring("any_kernel on stream") &&
                   ContainsSubstring("uses memory that no launch of its graph has allocated"));
    REQUIRE(cudaGraphLaunch(captured.graph, stream) == cudaSuccess);
    CHECK_THAT(reports_of([&] { CHECK(use_in_kernel(stream, captured.memory) == cudaSuccess); }),
               ContainsSubstring("uses memory that has been freed") &&
                   ContainsSubstring("freed by cudaFreeAsync in"));
    REQUIRE(cudaGraphExecDestroy(captured.graph) == cudaSuccess);
  });
}

TEST_CASE("work after a launch may use what the graph has allocated, in the order of the launch") {
  for_each_schedule([] {
    const OwnStream stream, other;
    const Captured captured = capture_memory(stream, 512, Frees::nowhere);
    REQUIRE(cudaGraphLaunch(captured.graph, stream) == cudaSuccess);
    CHECK(reports_of([&] { CHECK(use_in_kernel(stream, captured.memory) == cudaSuccess); }).empty());
    REQUIRE(cudaFreeAsync(captured.memory, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(captured.graph, stream) == cudaSuccess);
    CHECK_THAT(reports_of([&] { CHECK(use_in_kernel(other, captured.memory) == cudaSuccess); }),
               ContainsSubstring("any_kernel on stream") &&
                   ContainsSubstring("is not ordered after cudaMallocAsync"));
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaFreeAsync(captured.memory, stream) == cudaSuccess);
    REQUIRE(cudaGraphExecDestroy(captured.graph) == cudaSuccess);
  });
}

}  // namespace
}  // namespace gpu_model::test
