#include "core/graph.h"

#include <exception>
#include <memory>
#include <utility>

#include "core/capture.h"
#include "core/cuda_check.h"
#include "core/error.h"
#include "core/stream.h"

namespace ringtape {

#ifdef RINGTAPE_WITH_CUDA

Graph::Graph(Device device, const std::function<void()>& work, std::vector<GraphNode>* nodes)
    : device_(device) {
  check(device.is_cuda(), "CUDA graph: {} has none, expected a GPU", to_string(device));
  const auto stream = static_cast<cudaStream_t>(Stream::current(device).native());
  // Only calls of this thread can break the capture: another thread may be prefetching batches.
  RINGTAPE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::exception_ptr error;
  std::vector<LibraryWork> library_work;
  try {
    const CaptureScope scope;
    work();
    library_work = scope.library_work();
  } catch (...) {
    error = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  const std::unique_ptr<CUgraph_st, void (*)(cudaGraph_t)> owned(graph,
                                                                 [](cudaGraph_t g) { cudaGraphDestroy(g); });
  if (error != nullptr) {
    cudaGetLastError();  // clears the error of the broken capture, whose cause is `error`
    std::rethrow_exception(error);
  }
  check_cuda(ended, "cudaStreamEndCapture");
  if (nodes != nullptr) {
    *nodes = nodes_of_graph(graph);
    add_library_work(*nodes, library_work);
  }
  cudaGraphExec_t executable = nullptr;
  RINGTAPE_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  native_ = executable;
}

Graph::~Graph() {
  if (cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(native_)) != cudaSuccess) cudaGetLastError();
}

void Graph::launch() const {
  const Stream stream = Stream::current(device_);
  RINGTAPE_CUDA(
      cudaGraphLaunch(static_cast<cudaGraphExec_t>(native_), static_cast<cudaStream_t>(stream.native())));
}

#else

Graph::Graph(Device device, const std::function<void()>&, std::vector<GraphNode>*) {
  fail("CUDA graph: {} has none, expected a GPU", to_string(device));
}
Graph::~Graph() = default;
void Graph::launch() const {}

#endif

Replay::Replay(Device device, Function work, std::vector<GraphNode>* nodes)
    : Replay(
          [device, nodes](const Function& captured) -> Function {
            return [graph = std::make_shared<Graph>(device, captured, nodes)] { graph->launch(); };
          },
          std::move(work)) {}

Replay::Replay(Capture capture, Function work) : capture_(std::move(capture)), work_(std::move(work)) {}

void Replay::operator()() {
  if (!replay_) {
    const GraphMemoryPool::Scope scope(memory_);
    if (!std::exchange(has_run_, true)) return work_();
    replay_ = capture_(work_);
  }
  replay_();
}

}  // namespace ringtape
