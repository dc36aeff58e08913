#include <algorithm>
#include <set>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/capture.h"
#include "gpu_model/runtime/stream.h"

/// An executable graph. Its nodes are divided into branches, each a sequence of nodes in order; the position
/// of a node in the order of all operations is its branch and its number there.
struct CUgraphExec_st {
  std::shared_ptr<const gpu_model::GraphBody> body;
  std::shared_ptr<const gpu_model::GraphBody> captured;  ///< the body of the graph that it was made from
  const void* caller;
  std::vector<std::size_t> lanes;    ///< of the branches
  std::vector<std::uint64_t> ticks;  ///< of the branches
  gpu_model::NodePtr last;  ///< the end of the last launch: launches of one executable follow each other
};

namespace gpu_model {
namespace {

std::map<CUgraph_st*, std::unique_ptr<CUgraph_st>>& graphs() {
  static auto* const all = new std::map<CUgraph_st*, std::unique_ptr<CUgraph_st>>;
  return *all;
}
std::map<CUgraphExec_st*, std::unique_ptr<CUgraphExec_st>>& executables() {
  static auto* const all = new std::map<CUgraphExec_st*, std::unique_ptr<CUgraphExec_st>>;
  return *all;
}

/// Calls body(stream) for each stream that takes part in a capture.
template <class Body>
void for_each_captured(const Capture& capture, const Body& body) {
  for (const auto& device : state().devices) {
    for_each_stream(device->index, [&](CUstream_st& stream) {
      if (stream.capture.get() == &capture) body(stream);
    });
  }
}

/// Whether the capture has work in other streams that is not ordered before the end of its origin stream.
bool has_unjoined_work(const Capture& capture, const CUstream_st& origin) {
  std::set<std::size_t> joined;
  std::vector<std::size_t> left = origin.captured_last;
  while (!left.empty()) {
    const std::size_t entry = left.back();
    left.pop_back();
    if (!joined.insert(entry).second) continue;
    const auto& before = capture.body.entries[entry].before;
    left.insert(left.end(), before.begin(), before.end());
  }
  return joined.size() != capture.body.entries.size();
}

/// Divides the nodes into branches. Returns the number of branches.
std::size_t assign_branches(GraphBody& body) {
  std::vector<bool> has_heir(body.entries.size());
  std::size_t branches = 0;
  for (GraphBody::Entry& entry : body.entries) {
    const auto heir_of =
        std::find_if(entry.before.begin(), entry.before.end(), [&](std::size_t i) { return !has_heir[i]; });
    if (heir_of == entry.before.end()) {
      entry.branch = branches++;
    } else {
      has_heir[*heir_of] = true;
      entry.branch = body.entries[*heir_of].branch;
    }
  }
  return branches;
}

/// Removes the streams and events from the capture.
void end(const std::shared_ptr<Capture>& capture) {
  std::vector<CUstream_st*> taking_part;
  for_each_captured(*capture, [&](CUstream_st& stream) { taking_part.push_back(&stream); });
  for (CUstream_st* const stream : taking_part) {
    stream->capture = nullptr;
    stream->captured_last.clear();
  }
  for (auto& [event_handle, event] : state().events) {
    if (event->capture == capture) event->capture = nullptr;
  }
  state().captures.erase(capture);
}

cudaError_t begin_capture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
  if (stream->is_legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Capture>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->origin = stream;
  stream->captured_last.clear();
  state().captures.insert(stream->capture);
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t handle, cudaGraph_t* graph, const void* caller) {
  if (graph == nullptr) return cudaErrorInvalidValue;
  *graph = nullptr;
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  if (capture->origin != stream) {
    capture->invalidated = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  const bool unjoined = has_unjoined_work(*capture, *stream);
  for_each_captured(*capture, [](CUstream_st& other) {
    if (other.capture->origin != &other) other.captured_last.clear();
  });
  end(capture);
  if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (unjoined) return cudaErrorStreamCaptureUnjoined;
  auto made = std::make_unique<CUgraph_st>();
  made->body = std::make_shared<const GraphBody>(std::move(capture->body));
  for (const GraphBody::Entry& entry : made->body->entries) {
    made->nodes.push_back(std::make_unique<CUgraphNode_st>(entry.operation));
  }
  made->caller = caller;
  *graph = made.get();
  graphs().emplace(made.get(), std::move(made));
  return cudaSuccess;
}

/// Whether there may not be another executable graph of this one: "Only one instantiation of the graph may
/// exist at any point in time" with nodes that allocate or free (CUDA Runtime API reference,
/// cudaGraphAddMemAllocNode).
bool is_taken(const std::shared_ptr<const GraphBody>& captured) {
  const bool has_memory =
      std::any_of(captured->entries.begin(), captured->entries.end(), [](const GraphBody::Entry& entry) {
        return entry.operation->kind == Kind::allocation || entry.operation->kind == Kind::release;
      });
  return has_memory && std::any_of(executables().begin(), executables().end(), [&](const auto& executable) {
           return executable.second->captured == captured;
         });
}

/// Marks the graph's allocations as live, and its frees as freed. False if its memory of an earlier launch
/// has not been freed.
bool take_memory(const GraphBody& body) {
  for (const GraphBody::Entry& entry : body.entries) {
    const Kind kind = entry.operation->kind;
    if (kind != Kind::allocation && kind != Kind::release) continue;
    Block* const block = live_block(entry.operation->writes[0].begin, 0);
    if (block == nullptr || !block->in_graph || (kind == Kind::allocation && block->is_launched))
      return false;
    block->is_launched = kind == Kind::allocation;
  }
  return true;
}

/// The operation that is launched in place of one whose memory has been freed, after the report: kernels and
/// collectives run, as they need not access that memory; a copy, fill or product does nothing.
std::shared_ptr<const Operation> without_memory(const Operation& captured) {
  auto operation = std::make_shared<Operation>(captured);
  const bool runs = captured.kind == Kind::collective || !captured.allocations.empty();
  if (!runs) operation->run = [] { return Progress::done; };
  operation->reads.clear();
  operation->writes.clear();
  operation->allocations.clear();
  return operation;
}

cudaError_t launch_graph(CUgraphExec_st& executable, CUstream_st& stream, const void* caller) {
  Operation operation;
  operation.kind = Kind::marker;
  operation.name = "cudaGraphLaunch";
  operation.caller = caller;
  const auto marker = std::make_shared<const Operation>(std::move(operation));
  NodePtr start;
  if (stream.capture != nullptr) return cudaErrorNotSupported;  // a graph in a graph is not modelled
  const GraphBody& body = *executable.body;
  if (!take_memory(body)) return cudaErrorInvalidValue;
  std::vector<NodePtr> after{executable.last};
  if (body.memory != nullptr) {
    after.push_back(body.memory->last);
    after.insert(after.end(), body.memory->after.begin(), body.memory->after.end());
  }
  if (const cudaError_t error = queue(stream, marker, start, after)) return error;
  std::vector<NodePtr> nodes;
  std::vector<NodePtr> ends{start};
  for (const GraphBody::Entry& entry : body.entries) {
    Order order{{start}, {}, start->id, entry.stream};
    for (const std::size_t i : entry.before) order.before.push_back(nodes[i]);
    const Stamp stamp{executable.lanes[entry.branch], ++executable.ticks[entry.branch]};
    const Operation& captured = *entry.operation;
    const Access access{stamp, stream.number, start->id, entry.stream, captured.name, captured.caller, 0,
                        0,     false,         {}};
    const bool is_lost = report_freed(entry.used, access);
    nodes.push_back(add_node(is_lost ? without_memory(captured) : entry.operation, entry.device,
                             stream.number, stamp, std::move(order)));
    ends.push_back(nodes.back());
  }
  const cudaError_t error = queue(stream, marker, executable.last, ends);
  if (body.memory != nullptr) body.memory->last = executable.last;
  return error;
}

}  // namespace

void leave_capture(CUstream_st& stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture->origin == &stream) {
    end(capture);
  } else {
    capture->invalidated = true;
  }
}

/// Memory that a launch has allocated and that has not been freed stays until it is freed.
GraphMemory::~GraphMemory() {
  for (const auto& [device, begin] : blocks) {
    CUmemPoolHandle_st& pool = *state().devices[static_cast<std::size_t>(device)]->pool;
    Block& block = *pool.find(reinterpret_cast<const void*>(begin)).second;
    block.in_graph = false;
    if (block.is_launched) continue;
    if (block.history->freed.name.empty()) block.history->freed.name = "the end of its graph";
    pool.give_back(begin, last);
  }
}

CUgraph_st* find_graph(cudaGraph_t handle) {
  const auto it = graphs().find(handle);
  return it == graphs().end() ? nullptr : it->second.get();
}

CUgraphNode_st* find_graph_node(cudaGraphNode_t handle) {
  for (const auto& [key, graph] : graphs()) {
    for (const auto& node : graph->nodes) {
      if (node.get() == handle) return node.get();
    }
  }
  return nullptr;
}

void for_each_graph(const std::function<void(const char* what, const void* caller)>& body) {
  for (const auto& [handle, graph] : graphs()) body("graph, cudaStreamEndCapture", graph->caller);
  for (const auto& [handle, executable] : executables())
    body("executable graph, cudaGraphInstantiate", executable->caller);
}

cudaError_t forbid_in_captures() {
  cudaError_t error = cudaSuccess;
  for (const auto& capture : state().captures) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (!is_own && capture->mode != cudaStreamCaptureModeGlobal) continue;
    capture->invalidated = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t forbid_while_capturing(const CUstream_st& stream) {
  if (stream.capture != nullptr) {
    stream.capture->invalidated = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (!stream.is_legacy) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for_each_stream(stream.device, [&](CUstream_st& other) {
    if (!other.is_blocking || other.capture == nullptr) return;
    other.capture->invalidated = true;
    error = cudaErrorStreamCaptureImplicit;
  });
  return error;
}

cudaError_t add_to_capture(CUstream_st& stream, std::shared_ptr<const Operation> operation) {
  Capture& capture = *stream.capture;
  if (capture.invalidated) return cudaErrorStreamCaptureInvalidated;
  UsedMemory used = used_memory(*operation);
  capture.body.entries.push_back(
      {std::move(operation), stream.captured_last, stream.device, stream.number, std::move(used)});
  stream.captured_last = {capture.body.entries.size() - 1};
  return cudaSuccess;
}

}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api([&](Lock&) { return begin_capture(stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) { return end_capture(stream, graph, caller); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return api([&](Lock&) {
    if (status == nullptr) return cudaErrorInvalidValue;
    const CUstream_st* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->capture == nullptr     ? cudaStreamCaptureStatusNone
              : stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                             : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) {
    if (executable == nullptr || flags != 0) return cudaErrorInvalidValue;
    const auto it = graphs().find(graph);
    if (it == graphs().end() || is_taken(it->second->body)) return cudaErrorInvalidValue;
    auto body = std::make_shared<GraphBody>(*it->second->body);
    auto made = std::make_unique<CUgraphExec_st>();
    const std::size_t branches = assign_branches(*body);
    for (std::size_t i = 0; i < branches; ++i) made->lanes.push_back(state().lanes++);
    made->ticks.resize(branches);
    made->body = std::move(body);
    made->captured = it->second->body;
    made->caller = caller;
    *executable = made.get();
    executables().emplace(made.get(), std::move(made));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) {
    const auto it = executables().find(handle);
    if (it == executables().end()) return cudaErrorInvalidValue;
    CUstream_st* const stream = find_stream(stream_handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return launch_graph(*it->second, *stream, caller);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api([&](Lock&) { return graphs().erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue; });
}

/// An unfinished launch continues.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return api(
      [&](Lock&) { return executables().erase(executable) == 1 ? cudaSuccess : cudaErrorInvalidValue; });
}
}
