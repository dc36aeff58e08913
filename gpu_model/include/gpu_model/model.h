#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What the GPU model offers beside CUDA's own functions: the launch that stands for <<<>>>, and for tests
/// what a real GPU would not tell. docs/gpu-model.md lists the environment variables RINGTAPE_MODEL_*.
namespace gpu_model {

/// Sizes in x, y and z.
struct Size3 {
  unsigned x = 1, y = 1, z = 1;
};

/// A launch: kernel<<<grid, block, shared_bytes, stream>>>(...).
struct KernelLaunch {
  const void* entry;  ///< address of the kernel's function, by which cudaFuncSetAttribute and reports know it
  Size3 grid;
  Size3 block;
  std::size_t shared_bytes;  ///< dynamic shared memory of a block
  cudaStream_t stream;
};

/// The kernel with a copy of its arguments. A launch owns its call and runs it once, one in a graph once for
/// each launch of the graph.
class KernelCall {
 public:
  virtual ~KernelCall() = default;
  /// Runs the grid to its end. May throw std::exception: the launch has failed on the device.
  virtual void run() const = 0;
  /// The bytes in which the arguments lie: pointers into device memory are looked for there, at multiples
  /// of 8.
  virtual const void* arguments() const = 0;
  virtual std::size_t argument_bytes() const = 0;
};

/// Checks the launch as <<<>>> does and queues it; never runs it in the caller's place. Takes `call` over.
/// The error is also what cudaGetLastError() returns.
cudaError_t launch(const KernelLaunch& launch, KernelCall* call);

/// How work that streams and events leave unordered is run (RINGTAPE_MODEL_SCHEDULE).
enum class Schedule {
  order,  ///< at the call that queues it
  late,   ///< when something waits for it
  early,  ///< as soon as it can, what was queued last first
  random  ///< any order that is allowed, by a seed
};
/// For what is queued from now on.
void set_schedule(Schedule schedule, std::uint64_t seed = 0);
Schedule schedule();

/// Number of primary contexts that were opened by this process.
int contexts_opened();

/// Device memory that has not been freed: "#12: 1024 bytes on device 0, cudaMallocAsync in f at file.cpp:12".
std::vector<std::string> live_allocations();
/// Bytes of device memory that are allocated on all devices together.
std::size_t live_bytes();

/// The `number`-th allocation of device or pinned memory from now on (1: the next) fails with
/// cudaErrorMemoryAllocation; 0 ends that.
void fail_allocation(int number);

/// Reads or writes device memory by the host, behind the back of the protection: for tests.
void peek(void* to, const void* device_address, std::size_t bytes);

/// What the model reports beside error codes: a kernel's failure, unordered accesses. Printed to standard
/// error, and the process then ends with exit status 66, unless a handler is set. Returns the one before.
using ReportHandler = void (*)(const std::string& text);
ReportHandler set_report_handler(ReportHandler handler);
/// Number of reports so far.
int reports();

/// Clears errors that on a GPU end with the process: for tests.
void forgive_sticky_errors();

}  // namespace gpu_model
