// The contents of a captured graph: CUDA Runtime API reference, "Graph Management".
#include <algorithm>
#include <utility>

#include "gpu_model/runtime/engine.h"
#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

/// A graph of a kernel a, then a fill in the same stream and a kernel b in another one, then a kernel c after
/// both.
cudaGraph_t captured_diamond(void* memory) {
  const OwnStream first, second;
  const OwnEvent fork, join;
  REQUIRE(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(launch_on(first, [] {}, {{2, 3, 4}, {64, 2, 1}, 1024}) == cudaSuccess);  // a
  REQUIRE(cudaEventRecord(fork, first) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(second, fork) == cudaSuccess);
  REQUIRE(launch_on(second, [] {}) == cudaSuccess);  // b
  REQUIRE(cudaEventRecord(join, second) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(memory, 0, 16, first) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(first, join) == cudaSuccess);
  REQUIRE(launch_on(first, [] {}) == cudaSuccess);  // c
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(first, &graph) == cudaSuccess);
  return graph;
}

TEST_CASE("a graph lists its nodes, their types and launches, and its edges") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 16) == cudaSuccess);
  const cudaGraph_t graph = captured_diamond(memory);

  std::size_t count = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
  REQUIRE(count == 4);
  // A longer list is filled with null, a shorter one has the first nodes.
  std::vector<cudaGraphNode_t> nodes(6, reinterpret_cast<cudaGraphNode_t>(1));
  count = 6;
  REQUIRE(cudaGraphGetNodes(graph, nodes.data(), &count) == cudaSuccess);
  CHECK(count == 4);
  CHECK(nodes[4] == nullptr);
  CHECK(nodes[5] == nullptr);
  cudaGraphNode_t one = nullptr;
  count = 1;
  CHECK(cudaGraphGetNodes(graph, &one, &count) == cudaSuccess);
  CHECK(count == 1);
  CHECK(one == nodes[0]);

  std::vector<cudaGraphNodeType> types;
  for (int i = 0; i < 4; ++i) {
    types.emplace_back();
    REQUIRE(cudaGraphNodeGetType(nodes[i], &types.back()) == cudaSuccess);
  }
  CHECK(types == std::vector{cudaGraphNodeTypeKernel, cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemset,
                             cudaGraphNodeTypeKernel});

  cudaKernelNodeParams kernel{};
  REQUIRE(cudaGraphKernelNodeGetParams(nodes[0], &kernel) == cudaSuccess);
  CHECK(kernel.func == entry());
  CHECK(std::vector{kernel.gridDim.x, kernel.gridDim.y, kernel.gridDim.z} == std::vector{2u, 3u, 4u});
  CHECK(std::vector{kernel.blockDim.x, kernel.blockDim.y, kernel.blockDim.z} == std::vector{64u, 2u, 1u});
  CHECK(kernel.sharedMemBytes == 1024);

  REQUIRE(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count) == cudaSuccess);
  REQUIRE(count == 4);
  std::vector<cudaGraphNode_t> from(5), to(5, nodes[0]);
  count = 5;
  REQUIRE(cudaGraphGetEdges(graph, from.data(), to.data(), nullptr, &count) == cudaSuccess);
  CHECK(count == 4);
  CHECK(to[4] == nullptr);
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> edges;
  const auto number = [&](cudaGraphNode_t node) {
    return std::find(nodes.begin(), nodes.end(), node) - nodes.begin();
  };
  for (int i = 0; i < 4; ++i) edges.emplace_back(number(from[i]), number(to[i]));
  std::sort(edges.begin(), edges.end());
  CHECK(edges == std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>>{{0, 1}, {0, 2}, {1, 3}, {2, 3}});

  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("wrong arguments of the graph functions have the documented errors") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 16) == cudaSuccess);
  const cudaGraph_t graph = captured_diamond(memory);
  std::vector<cudaGraphNode_t> nodes(4);
  std::size_t count = 4;
  REQUIRE(cudaGraphGetNodes(graph, nodes.data(), &count) == cudaSuccess);
  cudaKernelNodeParams kernel{};
  CHECK(cudaGraphGetNodes(nullptr, nullptr, &count) == cudaErrorInvalidValue);
  CHECK(cudaGraphGetNodes(graph, nullptr, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphGetEdges(graph, nodes.data(), nullptr, nullptr, &count) == cudaErrorInvalidValue);
  CHECK(cudaGraphNodeGetType(nullptr, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeGetParams(nodes[2], &kernel) == cudaErrorInvalidValue);  // a fill
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaGraphKernelNodeGetParams(nodes[0], &kernel) == cudaErrorInvalidValue);  // of no graph any more
  cudaGetLastError();
  REQUIRE(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("a library's kernel is a node without a function of this program") {
  const OwnStream stream;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  Operation product;
  product.name = "cublasGemmEx";
  product.run = [] { return Progress::done; };
  REQUIRE(enqueue(stream, std::move(product)) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphNode_t node = nullptr;
  std::size_t count = 1;
  REQUIRE(cudaGraphGetNodes(graph, &node, &count) == cudaSuccess);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(node, &type) == cudaSuccess);
  CHECK(type == cudaGraphNodeTypeKernel);
  cudaKernelNodeParams kernel{};
  CHECK(cudaGraphKernelNodeGetParams(node, &kernel) == cudaErrorInvalidDeviceFunction);
  cudaGetLastError();
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
}

}  // namespace
}  // namespace gpu_model::test
