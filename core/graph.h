#pragma once

#include <functional>
#include <vector>

#include "core/device.h"
#include "core/graph_memory.h"
#include "core/graph_nodes.h"

namespace ringtape {

/// A CUDA graph: kernel launches that are captured once and then queued again by one call, so that the host
/// pays the launch overhead of each kernel only once. (NVIDIA, CUDA C++ Programming Guide, "CUDA Graphs".)
class Graph {
 public:
  /// Captures the work that `work` queues on the current stream of `device`, without running it. Throws Error
  /// for a device without graphs, and for work that a graph cannot capture, which the error names. `nodes`,
  /// unless null, receives the graph's nodes. During the capture other threads may free tensors, but must not
  /// queue work or allocate on that stream (one for all threads unless a StreamScope sets another): their
  /// work would become part of the graph.
  Graph(Device device, const std::function<void()>& work, std::vector<GraphNode>* nodes = nullptr);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Queues the captured work on the device's current stream.
  void launch() const;

 private:
  Device device_;
  void* native_ = nullptr;  // cudaGraphExec_t
};

/// Work that is repeated on the same memory, with the same sizes. The first call runs it, which also makes
/// its one-time allocations. The second call captures it as a graph; that call and all later ones launch the
/// graph.
///
/// A replay repeats the device's work and not the host's: numbers passed to kernels keep their values from
/// the capture. Values that change from call to call (inputs, the learning rate) must be in device memory
/// allocated before the capture. The result must be there too, or in tensors of the capture that the caller
/// keeps.
class Replay {
 public:
  using Function = std::function<void()>;
  /// Captures work and returns the function that replays it.
  using Capture = std::function<Function(const Function& work)>;

  /// `nodes`, unless null, receives the graph's nodes at the capture; it must live until then.
  Replay(Device device, Function work, std::vector<GraphNode>* nodes = nullptr);
  /// The same with another capture function, for tests.
  Replay(Capture capture, Function work);

  void operator()();

 private:
  Capture capture_;
  Function work_;
  GraphMemoryPool memory_;
  bool has_run_ = false;
  Function replay_;
};

}  // namespace ringtape
