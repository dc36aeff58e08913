#pragma once

#include "gpu_model/runtime/state.h"

/// A node of a captured graph.
struct CUgraphNode_st {
  std::shared_ptr<const gpu_model::Operation> operation;
};

/// A captured graph. Its nodes are in the order of the body's entries.
struct CUgraph_st {
  std::shared_ptr<const gpu_model::GraphBody> body;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  const void* caller;  ///< return address of the call that ended the capture
};

namespace gpu_model {

/// For calls that a capture does not allow ("potentially unsafe": they may synchronize, such as cudaMalloc or
/// cudaEventQuery): returns cudaErrorStreamCaptureUnsupported and invalidates the capture, in a thread with a
/// capture of a mode other than relaxed, or in any thread while another captures in the global mode.
cudaError_t forbid_in_captures();
/// For a call on this stream, in any thread: returns cudaErrorStreamCaptureUnsupported while the stream
/// captures, and for the legacy default stream cudaErrorStreamCaptureImplicit while a blocking stream of its
/// device captures; invalidates the capture.
cudaError_t forbid_while_capturing(const CUstream_st& stream);

/// Adds the operation to the graph that the stream captures.
cudaError_t add_to_capture(CUstream_st& stream, std::shared_ptr<const Operation> operation);

/// For a stream that is destroyed: nothing can end the capture that it began, and another's is invalid.
void leave_capture(CUstream_st& stream);

/// The graph of a handle; null for a handle that does not exist.
CUgraph_st* find_graph(cudaGraph_t handle);
/// The node of a handle, of any graph; null for a handle that does not exist.
CUgraphNode_st* find_graph_node(cudaGraphNode_t handle);

/// Calls body() for each graph, captured or executable, that has not been destroyed, with the call that made
/// it.
void for_each_graph(const std::function<void(const char* what, const void* caller)>& body);
}  // namespace gpu_model
