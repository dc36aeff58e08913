#pragma once

#include <functional>

#include "core/device.h"
#include "core/graph_memory.h"

namespace ringtape {

/// A CUDA graph: launches that were captured once and are queued again by one call, so that the host's
/// time for each of them is paid once. (NVIDIA, CUDA C++ Programming Guide, "CUDA Graphs".)
class Graph {
 public:
  /// Captures what `work` queues on the current stream of `device`; nothing of it runs. Throws Error on a
  /// device without graphs, and where `work` did what a graph cannot hold; the text says what.
  Graph(Device device, const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Queues all of it on the device's current stream.
  void launch() const;

 private:
  Device device_;
  void* native_ = nullptr;  // cudaGraphExec_t
};

/// Work that is done again and again on the same memory, with the same sizes. The first call runs it, so that
/// whatever it sets up for later is there; the second captures it as a graph; that call and all later ones
/// launch the graph.
///
/// A repetition does what the device did, and nothing that the host did: numbers that the work passed to
/// kernels stay those of the capture. What changes from call to call has to lie in device memory that was
/// there before (inputs, the learning rate), and so has the result (or in tensors that `work` leaves where it
/// left them at the capture).
class Replay {
 public:
  using Work = std::function<void()>;
  /// Captures work and returns what repeats it.
  using Capture = std::function<Work(const Work& work)>;

  Replay(Device device, Work work);
  /// The same with another way to capture, for tests.
  Replay(Capture capture, Work work);

  void operator()();

 private:
  Capture capture_;
  Work work_;
  GraphMemoryPool memory_;
  bool has_run_ = false;
  Work replay_;
};

}  // namespace ringtape
