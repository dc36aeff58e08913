#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Functions of the GPU model that CUDA does not have: the launch that replaces <<<>>>, and, for tests,
/// information that a GPU does not provide. docs/gpu-model.md lists the environment variables
/// RINGTAPE_MODEL_*.
namespace gpu_model {

/// Sizes in x, y and z.
struct Size3 {
  unsigned x = 1, y = 1, z = 1;
};

/// A launch: kernel<<<grid, block, shared_bytes, stream>>>(...).
struct KernelLaunch {
  const void* entry;  ///< address of the kernel's function, its key in cudaFuncSetAttribute and reports
  Size3 grid;
  Size3 block;
  std::size_t shared_bytes;  ///< dynamic shared memory of a block
  cudaStream_t stream;
};

/// The kernel with a copy of its arguments. A launch owns its call and runs it once; a launch in a graph runs
/// it once for each launch of the graph.
class KernelCall {
 public:
  virtual ~KernelCall() = default;
  /// Runs the grid to its end. May throw std::exception: the launch has failed on the device.
  virtual void run() const = 0;
  /// The bytes of the arguments, in which the model searches for pointers into device memory, at multiples of
  /// 8. Stale pointers in their padding may be reported as a use of freed memory.
  virtual const void* arguments() const = 0;
  virtual std::size_t argument_bytes() const = 0;
};

/// Checks the launch as <<<>>> does and queues it; the schedule decides when it runs. Takes ownership of
/// `call`. cudaGetLastError() also returns the error.
cudaError_t launch(const KernelLaunch& launch, KernelCall* call);

/// The order of work that streams and events do not order (RINGTAPE_MODEL_SCHEDULE).
enum class Schedule {
  order,  ///< at the call that queues it
  late,   ///< when the host or other work waits for it
  early,  ///< all when the host waits or queries, last queued first: overtakes earlier work of other streams
  random  ///< any allowed order, by a seed
};
/// For work queued from now on.
void set_schedule(Schedule schedule, std::uint64_t seed = 0);
Schedule schedule();

/// Whether unordered accesses are detected, and which bytes count as accessed by a kernel
/// (RINGTAPE_MODEL_RACES).
enum class Races {
  off,
  allocations,  ///< the allocations of its arguments: reported where memory is freed or not yet allocated
  exact         ///< the bytes it was seen to touch when it ran: needs RINGTAPE_MODEL_EXACT or note_access()
};
/// Sets it for operations queued from now on. Returns the previous setting.
Races set_races(Races races);
/// Instrumented code of a kernel calls it at each access, in any thread. Accesses to memory other than the
/// devices' are ignored.
void note_access(const void* memory, std::size_t bytes, bool writes);

/// A kernel calls it where a GPU would access `alignment` bytes at once and `memory` is not a multiple of
/// `alignment`: the launch fails with cudaErrorMisalignedAddress. The report names `file`, which must outlive
/// the launch, and `line`.
void note_misaligned(const void* memory, std::size_t alignment, const char* file, unsigned line);

/// Number of primary contexts that this process has created.
int contexts_opened();

/// Number of times so far that the host has waited for a device: in cudaStreamSynchronize and the like, in
/// cudaFree, and in copies that return when they are done.
int host_waits();

/// Device and pinned memory, streams, events and graphs that have not been released: "#12: 1024 bytes on
/// device 0, cudaMallocAsync in f at file.cpp:12". With RINGTAPE_MODEL_LEAKS=list they are printed to
/// standard error when the process exits, with RINGTAPE_MODEL_LEAKS=error reported.
std::vector<std::string> live_objects();
/// Bytes of device memory that are allocated on all devices together.
std::size_t live_bytes();

/// The `number`-th allocation of device or pinned memory, or stream, from now on (1: the next) fails with
/// cudaErrorMemoryAllocation; 0 cancels it. RINGTAPE_MODEL_OOM=NUMBER counts from the start of the process.
void fail_allocation(int number);

/// If true, cuBLASLt's heuristic finds no algorithm for a product with an epilogue, which the reference
/// permits for any product: for tests.
void refuse_epilogues(bool refused);

/// Reads device memory from the host, bypassing the protection: for tests.
void peek(void* to, const void* device_address, std::size_t bytes);

/// Receives the model's reports, which come in addition to error codes: a kernel's failure, unordered
/// accesses. Without a handler a report is printed to standard error, and when the process exits, its status
/// is 66. Returns the previous handler.
using ReportHandler = void (*)(const std::string& text);
ReportHandler set_report_handler(ReportHandler handler);
/// Number of reports so far.
int reports();

/// Clears sticky errors, which on a GPU last until the process ends: for tests.
void forgive_sticky_errors();

}  // namespace gpu_model
