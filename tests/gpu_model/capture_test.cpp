// Capture and graphs: CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture" and "Prohibited and
// Unhandled Operations"; CUDA Runtime API reference, "Stream Management" and "Graph Management".
#include <thread>

#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  return cudaStreamBeginCapture(stream, mode);
}

/// Ends a capture that is expected to have failed.
cudaError_t end_failed(cudaStream_t stream) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  CHECK(graph == nullptr);
  cudaGetLastError();
  return error;
}

TEST_CASE("captured work does not run; each launch of the graph runs all of it") {
  for_each_schedule([] {
    const OwnStream stream;
    std::string seen;
    REQUIRE(begin(stream) == cudaSuccess);
    REQUIRE(launch_on(stream, [&] { seen += 'a'; }) == cudaSuccess);
    REQUIRE(launch_on(stream, [&] { seen += 'b'; }) == cudaSuccess);
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusActive);
    const cudaGraphExec_t graph = end_and_instantiate(stream);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(seen.empty());
    REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
    REQUIRE(launch_on(stream, [&] { seen += '|'; }) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
    REQUIRE(cudaGraphExecDestroy(graph) == cudaSuccess);  // the launch continues
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(seen == "ab|ab");
    CHECK(cudaGraphLaunch(graph, stream) == cudaErrorInvalidValue);
    cudaGetLastError();
  });
}

TEST_CASE("an event brings another stream into the capture, which must be joined again") {
  for_each_schedule([] {
    const OwnStream a, b;
    const OwnEvent fork, join;
    std::string seen;
    const auto record = [&](bool joins) {
      REQUIRE(begin(a) == cudaSuccess);
      REQUIRE(launch_on(a, [&] { seen += 'x'; }) == cudaSuccess);
      REQUIRE(cudaEventRecord(fork, a) == cudaSuccess);
      REQUIRE(cudaStreamWaitEvent(b, fork) == cudaSuccess);
      REQUIRE(launch_on(b, [&] { seen += 'y'; }) == cudaSuccess);
      REQUIRE(cudaEventRecord(join, b) == cudaSuccess);
      if (joins) REQUIRE(cudaStreamWaitEvent(a, join) == cudaSuccess);
      REQUIRE(launch_on(a, [&] { seen += 'z'; }) == cudaSuccess);
    };
    record(true);
    const cudaGraphExec_t graph = end_and_instantiate(a);
    REQUIRE(cudaGraphLaunch(graph, a) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(graph, b) == cudaSuccess);  // after the previous launch of the same graph
    REQUIRE(cudaStreamSynchronize(b) == cudaSuccess);
    CHECK(seen == "xyzxyz");
    REQUIRE(cudaGraphExecDestroy(graph) == cudaSuccess);
    record(false);
    CHECK(end_failed(a) == cudaErrorStreamCaptureUnjoined);
    CHECK(launch_on(b, [] {}) == cudaSuccess);  // both are usable again
    CHECK(cudaStreamSynchronize(a) == cudaSuccess);
  });
}

TEST_CASE("calls that may make the host wait invalidate a capture") {
  const OwnStream stream, other;
  const OwnEvent before;
  REQUIRE(cudaEventRecord(before, other) == cudaSuccess);
  void* memory = nullptr;
  int on_host = 0;
  const DeviceInts x;
  const std::pair<const char*, std::function<cudaError_t()>> calls[] = {
      {"cudaStreamSynchronize", [&] { return cudaStreamSynchronize(stream); }},
      {"cudaStreamQuery", [&] { return cudaStreamQuery(stream); }},
      {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }},
      {"cudaEventQuery", [&] { return cudaEventQuery(before); }},
      {"cudaMalloc", [&] { return cudaMalloc(&memory, 512); }},
      {"cudaMallocHost", [&] { return cudaMallocHost(&memory, 512); }},
      {"cudaMemcpy", [&] { return cudaMemcpy(&on_host, x.get(), sizeof(int), cudaMemcpyDefault); }},
  };
  for (const auto& [name, call] : calls) {
    INFO(name);
    REQUIRE(begin(stream) == cudaSuccess);
    CHECK(call() == cudaErrorStreamCaptureUnsupported);
    CHECK(launch_on(stream, [] {}) == cudaErrorStreamCaptureInvalidated);
    CHECK(end_failed(stream) == cudaErrorStreamCaptureInvalidated);
  }
}

TEST_CASE("the mode selects the threads whose calls invalidate a capture") {
  const OwnStream stream;
  const auto of_another_thread = [](const std::function<void()>& calls) { std::thread(calls).join(); };
  cudaError_t error = cudaSuccess;
  const auto allocate = [&] {
    void* memory = nullptr;
    error = cudaMalloc(&memory, 512);
    if (error == cudaSuccess) REQUIRE(cudaFree(memory) == cudaSuccess);
  };
  REQUIRE(begin(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  of_another_thread(allocate);
  CHECK(error == cudaSuccess);
  cudaGraph_t graph = nullptr;
  of_another_thread([&] { error = cudaStreamEndCapture(stream, &graph); });
  CHECK(error == cudaErrorStreamCaptureWrongThread);
  REQUIRE(cudaGraphExecDestroy(end_and_instantiate(stream)) == cudaSuccess);

  REQUIRE(begin(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  of_another_thread(allocate);
  CHECK(error == cudaErrorStreamCaptureUnsupported);
  CHECK(end_failed(stream) == cudaErrorStreamCaptureInvalidated);

  REQUIRE(begin(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  allocate();
  CHECK(error == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(end_and_instantiate(stream)) == cudaSuccess);
}

TEST_CASE("captures do not mix with other work") {
  const OwnStream a, b;
  const OwnEvent outside, of_a;
  REQUIRE(cudaEventRecord(outside, b) == cudaSuccess);
  CHECK(begin(nullptr) == cudaErrorStreamCaptureUnsupported);  // the legacy default stream
  REQUIRE(begin(a) == cudaSuccess);
  CHECK(begin(a) == cudaErrorIllegalState);
  CHECK(cudaStreamWaitEvent(a, outside) == cudaErrorStreamCaptureIsolation);
  CHECK(end_failed(a) == cudaErrorStreamCaptureInvalidated);

  REQUIRE(begin(a) == cudaSuccess);
  REQUIRE(cudaEventRecord(of_a, a) == cudaSuccess);
  CHECK(cudaEventSynchronize(of_a) == cudaErrorCapturedEvent);
  CHECK(end_failed(a) == cudaErrorStreamCaptureInvalidated);

  REQUIRE(begin(a) == cudaSuccess);
  REQUIRE(begin(b) == cudaSuccess);
  REQUIRE(cudaEventRecord(of_a, a) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(b, of_a) == cudaErrorStreamCaptureMerge);
  CHECK(end_failed(a) == cudaErrorStreamCaptureInvalidated);
  CHECK(end_failed(b) == cudaErrorStreamCaptureInvalidated);

  const OwnStream blocking(cudaStreamDefault);
  REQUIRE(begin(blocking) == cudaSuccess);
  CHECK(launch_on(nullptr, [] {}) == cudaErrorStreamCaptureImplicit);
  CHECK(end_failed(blocking) == cudaErrorStreamCaptureInvalidated);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorIllegalState);
  cudaGetLastError();
}

TEST_CASE("memory that a graph allocates is live after a launch of the graph") {
  const OwnStream stream;
  REQUIRE(begin(stream) == cudaSuccess);
  void* memory = nullptr;
  REQUIRE(cudaMallocAsync(&memory, 512, stream) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(memory, 1, 512, stream) == cudaSuccess);
  const cudaGraphExec_t graph = end_and_instantiate(stream);
  CHECK(cudaFreeAsync(memory, stream) == cudaErrorInvalidValue);
  REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
  CHECK(cudaGraphLaunch(graph, stream) == cudaErrorInvalidValue);  // its memory has not been freed
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(value_of(static_cast<int*>(memory)) == 0x01010101);
  CHECK(cudaFreeAsync(memory, stream) == cudaSuccess);
  CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("a stream that is destroyed while it captures ends the capture") {
  const OwnStream other;
  const OwnEvent fork;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(begin(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cudaEventRecord(fork, stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other, fork) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 512) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(launch_on(other, [] {}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(other) == cudaSuccess);
}

}  // namespace
}  // namespace gpu_model::test
