#include <algorithm>
#include <optional>
#include <utility>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/capture.h"

// What a captured graph contains: CUDA Runtime API reference, "Graph Management".
namespace gpu_model {
namespace {

/// None for an operation that a capture does not make a node of.
std::optional<cudaGraphNodeType> type_of(Kind kind) {
  switch (kind) {
    case Kind::kernel:
    case Kind::collective:
      return cudaGraphNodeTypeKernel;
    case Kind::copy:
      return cudaGraphNodeTypeMemcpy;
    case Kind::fill:
      return cudaGraphNodeTypeMemset;
    case Kind::host_function:
      return cudaGraphNodeTypeHost;
    case Kind::allocation:
      return cudaGraphNodeTypeMemAlloc;
    case Kind::release:
      return cudaGraphNodeTypeMemFree;
    case Kind::marker:
      return cudaGraphNodeTypeEmpty;
    case Kind::event:
    case Kind::wait:
      break;
  }
  return std::nullopt;
}

/// The dependencies of a graph: numbers of nodes, the earlier one first.
std::vector<std::pair<std::size_t, std::size_t>> edges_of(const GraphBody& body) {
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (std::size_t i = 0; i < body.entries.size(); ++i) {
    for (const std::size_t before : body.entries[i].before) edges.emplace_back(before, i);
  }
  return edges;
}

cudaError_t get_nodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  const CUgraph_st* const graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return cudaErrorInvalidValue;
  const std::size_t there = graph->nodes.size();
  if (nodes == nullptr) {
    *count = there;
    return cudaSuccess;
  }
  // "If numNodes is higher than the actual number of nodes, the remaining entries in nodes will be set to
  // NULL, and the number of nodes actually obtained will be returned in numNodes."
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < there ? graph->nodes[i].get() : nullptr;
  *count = std::min(*count, there);
  return cudaSuccess;
}

cudaError_t get_edges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
                      std::size_t* count) {
  const CUgraph_st* const graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return cudaErrorInvalidValue;
  if ((from == nullptr) != (to == nullptr) || (data != nullptr && from == nullptr)) {
    return cudaErrorInvalidValue;
  }
  const auto edges = edges_of(*graph->body);
  if (from == nullptr) {
    *count = edges.size();
    return cudaSuccess;
  }
  for (std::size_t i = 0; i < *count; ++i) {
    const bool is_there = i < edges.size();
    from[i] = is_there ? graph->nodes[edges[i].first].get() : nullptr;
    to[i] = is_there ? graph->nodes[edges[i].second].get() : nullptr;
    if (data != nullptr)
      data[i] = {};  // full dependencies: a capture of what the model knows makes no others
  }
  *count = std::min(*count, edges.size());
  return cudaSuccess;
}

cudaError_t get_kernel(cudaGraphNode_t handle, cudaKernelNodeParams* parameters) {
  const CUgraphNode_st* const node = find_graph_node(handle);
  if (node == nullptr || parameters == nullptr) return cudaErrorInvalidValue;
  const Operation& operation = *node->operation;
  if (type_of(operation.kind) != cudaGraphNodeTypeKernel) return cudaErrorInvalidValue;
  if (operation.entry == nullptr) return cudaErrorInvalidDeviceFunction;  // a kernel of a library
  const auto dim3_of = [](const unsigned(&sizes)[3]) { return dim3{sizes[0], sizes[1], sizes[2]}; };
  *parameters = {const_cast<void*>(operation.entry),
                 dim3_of(operation.grid),
                 dim3_of(operation.block),
                 static_cast<unsigned>(operation.shared_bytes),
                 nullptr,
                 nullptr};
  return cudaSuccess;
}

}  // namespace
}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return api([&](Lock&) { return get_nodes(graph, nodes, count); });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* data, std::size_t* count) {
  return api([&](Lock&) { return get_edges(graph, from, to, data, count); });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
  return api([&](Lock&) {
    const CUgraphNode_st* const node = find_graph_node(handle);
    if (node == nullptr || type == nullptr) return cudaErrorInvalidValue;
    const std::optional<cudaGraphNodeType> found = type_of(node->operation->kind);
    if (!found) return cudaErrorInvalidValue;
    *type = *found;
    return cudaSuccess;
  });
}

/// The arguments of a kernel are not modelled: they are null.
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* parameters) {
  return api([&](Lock&) { return get_kernel(node, parameters); });
}
}
