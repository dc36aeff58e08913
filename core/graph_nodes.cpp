#include "core/graph_nodes.h"

#include <algorithm>
#include <map>

#include "core/cuda_check.h"
#include "core/error.h"

namespace ringtape {

#ifdef RINGTAPE_WITH_CUDA

namespace {

using Edges = std::vector<std::pair<cudaGraphNode_t, cudaGraphNode_t>>;

std::vector<cudaGraphNode_t> handles_of(cudaGraph_t graph) {
  std::size_t count = 0;
  RINGTAPE_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) RINGTAPE_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

cudaError_t get_edges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
                      std::size_t* count) {
#if CUDART_VERSION >= 13000
  return cudaGraphGetEdges(graph, from, to, data, count);
#else
  return cudaGraphGetEdges_v2(graph, from, to, data, count);
#endif
}

Edges edges_of(cudaGraph_t graph) {
  std::size_t count = 0;
  RINGTAPE_CUDA(get_edges(graph, nullptr, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> data(count);
  if (count > 0) RINGTAPE_CUDA(get_edges(graph, from.data(), to.data(), data.data(), &count));
  Edges edges;
  for (std::size_t i = 0; i < count; ++i) edges.emplace_back(from[i], to[i]);
  return edges;
}

/// The nodes in topological order; of several that could be next, the first in `nodes`.
std::vector<cudaGraphNode_t> in_order(const std::vector<cudaGraphNode_t>& nodes, const Edges& edges) {
  std::map<cudaGraphNode_t, std::size_t> waits_for;
  for (const auto& [before, after] : edges) ++waits_for[after];
  std::vector<cudaGraphNode_t> ordered, left = nodes;
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(), [&](auto node) { return waits_for[node] == 0; });
    check(next != left.end(), "CUDA graph: the dependencies of its nodes form a cycle");
    for (const auto& [before, after] : edges) {
      if (before == *next) --waits_for[after];
    }
    ordered.push_back(*next);
    left.erase(next);
  }
  return ordered;
}

void add_kernel(GraphNode& node, cudaGraphNode_t handle) {
  cudaKernelNodeParams parameters{};
  const cudaError_t error = cudaGraphKernelNodeGetParams(handle, &parameters);
  if (error == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();  // a failed call stays the "last error" until it is read
    return;
  }
  check_cuda(error, "cudaGraphKernelNodeGetParams");
  const auto sizes = [](dim3 size) { return std::array<unsigned, 3>{size.x, size.y, size.z}; };
  node.grid = sizes(parameters.gridDim);
  node.block = sizes(parameters.blockDim);
  node.shared_bytes = parameters.sharedMemBytes;
  const char* name = nullptr;
  if (cudaFuncGetName(&name, parameters.func) == cudaSuccess) {
    node.symbol = name;
  } else {
    cudaGetLastError();
  }
}

GraphNode node_of(cudaGraphNode_t handle) {
  cudaGraphNodeType type;
  RINGTAPE_CUDA(cudaGraphNodeGetType(handle, &type));
  GraphNode node;
  if (type == cudaGraphNodeTypeKernel) {
    node.kind = GraphNode::Kind::kernel;
    add_kernel(node, handle);
  } else if (type == cudaGraphNodeTypeMemcpy) {
    node.kind = GraphNode::Kind::memcpy;
  } else if (type == cudaGraphNodeTypeMemset) {
    node.kind = GraphNode::Kind::memset;
  }
  return node;
}

}  // namespace

std::vector<GraphNode> nodes_of_graph(void* native) {
  const auto graph = static_cast<cudaGraph_t>(native);
  const Edges edges = edges_of(graph);
  std::vector<GraphNode> nodes;
  std::map<cudaGraphNode_t, std::size_t> places;
  for (const cudaGraphNode_t handle : in_order(handles_of(graph), edges)) {
    places[handle] = nodes.size();
    nodes.push_back(node_of(handle));
    for (const auto& [before, after] : edges) {
      if (after == handle) nodes.back().after.push_back(places.at(before));
    }
    std::sort(nodes.back().after.begin(), nodes.back().after.end());
  }
  return nodes;
}

#else

std::vector<GraphNode> nodes_of_graph(void*) {
  fail("CUDA graph: this build has none, expected one with CUDA");
}

#endif

void add_library_work(std::vector<GraphNode>& nodes, const std::vector<LibraryWork>& noted) {
  std::vector<GraphNode*> of_libraries;
  for (GraphNode& node : nodes) {
    if (node.kind == GraphNode::Kind::kernel && node.symbol.empty()) of_libraries.push_back(&node);
  }
  if (of_libraries.size() != noted.size()) return;
  for (std::size_t i = 0; i < noted.size(); ++i) of_libraries[i]->library_work = noted[i];
}

}  // namespace ringtape
