#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// The engine of the GPU model: work that was queued, in what order it may run, and when it does. Everything
/// that is queued (a kernel, a copy, a cuBLAS product, an NCCL collective) is an Operation. An operation may
/// run when the one before it in its stream and the events that its stream waited for are done; the schedule
/// says which of those that may run does, and when. They run one at a time, in the thread whose call makes
/// progress.
namespace gpu_model {

/// Bytes of device memory, or of host memory that the device reads or writes.
struct Range {
  const void* begin;
  std::size_t bytes;
};

enum class Kind { kernel, copy, fill, event, wait, allocation, release, host_function, collective, marker };

/// What an operation's `run` has done: all of it, or nothing yet, because something outside of this process'
/// streams (another rank) has to come first. A blocked operation is run again later; meanwhile others go on.
enum class Progress { done, blocked };

/// What is queued. In a graph, `run` is called once for each launch of the graph, so it must not use itself
/// up.
struct Operation {
  Kind kind = Kind::kernel;
  std::string name;               ///< for reports: "relu_forward", "cudaMemcpyAsync"
  std::function<Progress()> run;  ///< may touch device memory; called by one thread at a time. Null: nothing.
  std::vector<Range> reads, writes;  ///< where they are known
  std::vector<Range> allocations;    ///< where they are not: allocations that it may read and write
  const void* caller = nullptr;      ///< return address of the call that queued it
  std::size_t bytes = 0;             ///< that a copy or a fill moves
  cudaMemcpyKind direction = cudaMemcpyDefault;  ///< of a copy
  unsigned grid[3] = {}, block[3] = {};          ///< of a kernel
  std::size_t shared_bytes = 0;
  const void* entry = nullptr;
};

/// An operation that was queued, for whoever watches (CUPTI). Times are of std::chrono::steady_clock, in
/// nanoseconds.
struct Activity {
  const Operation& operation;
  int device;
  int stream;                 ///< number of the stream, 0 for the legacy default stream
  std::uint64_t correlation;  ///< of the call that queued it, the graph's launch for its nodes
  bool in_graph;
  std::int64_t start, end;
};
class Observer {
 public:
  virtual ~Observer() = default;
  /// In the calling thread: a call has queued something under this correlation id.
  virtual void queued(std::uint64_t correlation, const Operation& operation) = 0;
  /// In whatever thread has run it. Must not call CUDA functions.
  virtual void finished(const Activity& activity) = 0;
};
/// Null ends it.
void set_observer(Observer* observer);

/// Queues `operation` in `stream` (a handle, null or one of the special ones), or adds it to the graph that
/// the stream is capturing. Errors: cudaErrorInvalidResourceHandle for a stream that does not exist, what is
/// sticky on its device, and those of a capture. Does not set the thread's last error.
cudaError_t enqueue(cudaStream_t stream, Operation operation);

/// Runs until what has been queued in `stream` so far is done, and what it depends on. Blocked operations are
/// waited for. Returns the sticky error of the stream's device.
cudaError_t wait(cudaStream_t stream);

/// Runs what the schedule would run at a call, and all of what can run where `everything` is true: for
/// threads of libraries that must go on while the program does something else. True when something has run.
bool make_progress(bool everything);
/// Wakes threads that wait for blocked operations: something has come that may let them go on.
void wake_waiting();
/// Called in a thread that begins to wait because all that is left is blocked (true), and when it goes on
/// (false), with the engine's mutex held: for libraries that look for waits that never end.
using WaitHook = void (*)(bool begins);
void set_wait_hook(WaitHook hook);

/// The device of a stream; -1 for a handle that does not exist.
int device_of(cudaStream_t stream);
/// Whether work in this stream is being captured.
bool is_capturing(cudaStream_t stream);
/// The device that is current in this thread.
int current_device();

/// Whether all of it lies in one allocation of device memory that has not been freed (in the order of the
/// calls).
bool is_live_device_memory(const void* address, std::size_t bytes);
/// Whether the address is of any device's memory, allocated or not.
bool is_device_memory(const void* address);
/// The device whose memory it is; -1 for host memory.
int device_of_memory(const void* address);

/// Where operations find the bytes at an address: pinned memory is mapped once more for them.
char* for_operations(const void* address);

/// Reports what is wrong beside error codes: see set_report_handler() in gpu_model/model.h.
void report(const std::string& text);
/// "relu_forward queued by ringtape::on_cuda::relu_forward at kernels/relu.cu:40", as far as it is known.
std::string describe(const Operation& operation);

}  // namespace gpu_model
