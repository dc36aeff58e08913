#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// The engine of the GPU model: queued work, its possible orders, and its execution. All queued work (a
/// kernel, a copy, a cuBLAS product, an NCCL collective) is an Operation. An operation is ready when the
/// previous one in its stream and the events that its stream waited for are complete; the schedule selects
/// when to run which of the ready operations: at calls (order), only when waited for (late), all at the
/// host's next wait or query and the last queued first (early), or by chance (random). They run one at a
/// time, in the thread whose call makes progress; host functions run in a thread of their own, while others
/// may run.
namespace gpu_model {

/// Bytes of device memory, or of host memory that the device reads or writes.
struct Range {
  const void* begin;
  std::size_t bytes;
};

enum class Kind { kernel, copy, fill, event, wait, allocation, release, host_function, collective, marker };

/// The result of an operation's `run`: it is complete, or blocked because it depends on something outside
/// this process' streams (another rank). A blocked operation is run again later; meanwhile others run.
enum class Progress { done, blocked };

/// A queued operation. In a graph, `run` is called once for each launch of the graph, so it must be
/// repeatable.
struct Operation {
  Kind kind = Kind::kernel;
  std::string name;  ///< for reports: "relu_forward", "cudaMemcpyAsync"
  /// May touch device memory; called by one thread at a time. A collective, which may be blocked, opens the
  /// memory itself (memory_space.h) before it touches it. Null: no work.
  std::function<Progress()> run;
  std::vector<Range> reads, writes;              ///< if they are known
  std::vector<Range> allocations;                ///< otherwise: allocations that it may read and write
  const void* caller = nullptr;                  ///< return address of the call that queued it
  std::size_t bytes = 0;                         ///< bytes of a copy or a fill
  cudaMemcpyKind direction = cudaMemcpyDefault;  ///< of a copy
  unsigned grid[3] = {}, block[3] = {};          ///< of a kernel
  std::size_t shared_bytes = 0;
  const void* entry = nullptr;
};

/// A queued operation, for an observer (CUPTI). Times are of std::chrono::steady_clock, in nanoseconds.
struct Activity {
  const Operation& operation;
  int device;
  int stream;                 ///< number of the stream, 0 for the legacy default stream
  std::uint64_t correlation;  ///< id of the call that queued it, or that launched its graph
  bool in_graph;
  std::int64_t start, end;
};
class Observer {
 public:
  virtual ~Observer() = default;
  /// Called in the calling thread: a call has queued an operation under this correlation id.
  virtual void queued(std::uint64_t correlation, const Operation& operation) = 0;
  /// Called in the thread that has run the operation. Must not call CUDA functions.
  virtual void finished(const Activity& activity) = 0;
};
/// Null: no observer.
void set_observer(Observer* observer);

/// Queues `operation` in `stream` (a handle, null or one of the special ones), or adds it to the graph that
/// the stream is capturing. Errors: cudaErrorInvalidResourceHandle for a stream that does not exist, the
/// sticky error of its device, and the errors of a capture. Does not set the thread's last error.
cudaError_t enqueue(cudaStream_t stream, Operation operation);

/// Runs until the operations queued in `stream` so far, and their dependencies, are complete. Waits for
/// blocked operations. Returns the sticky error of the stream's device.
cudaError_t wait(cudaStream_t stream);

/// Runs the operations that the schedule would run at a call, or all ready operations if `everything` is
/// true: for threads of libraries that must progress while the program does other work. With `everything`,
/// returns whether an operation has run or a host function is running; otherwise false.
bool make_progress(bool everything);
/// Wakes threads that wait for blocked operations, after an event that may unblock them.
void wake_waiting();
/// Called in a thread that begins to wait because all remaining operations are blocked, and when it continues
/// (with null), with the engine's mutex held: for libraries that detect deadlocks. The wait is over when
/// `done` is true, which may be long before the system runs the thread again.
using WaitHook = void (*)(const std::atomic<bool>* done);
void set_wait_hook(WaitHook hook);

/// The device of a stream; -1 for a handle that does not exist.
int device_of(cudaStream_t stream);
/// Whether work in this stream is being captured.
bool is_capturing(cudaStream_t stream);
/// The current device of this thread.
int current_device();

/// Whether the bytes are in one allocation of device memory that has not been freed (in the order of the
/// calls).
bool is_live_device_memory(const void* address, std::size_t bytes);
/// Whether the bytes are in one allocation of pinned memory.
bool is_pinned_memory(const void* address, std::size_t bytes);
/// Whether the address is in a device's memory, allocated or not.
bool is_device_memory(const void* address);
/// The device whose memory it is; -1 for host memory.
int device_of_memory(const void* address);

/// The address that operations use for the bytes at `address`: pinned memory has a second mapping for them.
char* for_operations(const void* address);

/// Reports an error in addition to error codes: see set_report_handler() in gpu_model/model.h.
void report(const std::string& text);
/// "cudaMemcpyAsync (queued in ringtape::copy_bytes_async at core/memory.cpp:351)", as far as known.
std::string describe(const Operation& operation);

}  // namespace gpu_model
