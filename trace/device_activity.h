#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/device.h"
#include "trace/spans.h"

/// A GPU's work with its times, and the host's span that queued it.
namespace ringtape {

enum class DeviceWork : std::uint8_t { kernel, copy, memset };

const char* name_of(DeviceWork work);

/// One kernel, copy or memset that has run.
struct DeviceActivity {
  DeviceWork work = DeviceWork::kernel;
  std::string name;               ///< kernel_name(), or "copy host to device", "memset", ...
  SpanClock::time_point begin{};  ///< on the clock of the spans
  SpanClock::time_point end{};
  std::int64_t stream = 0;       ///< CUPTI's number of the stream
  std::int64_t bytes = 0;        ///< bytes copied or set
  std::array<int, 3> grid{};     ///< blocks of a kernel
  std::array<int, 3> block{};    ///< threads of a block
  std::uint64_t graph_node = 0;  ///< node of a CUDA graph; 0: none
  std::uint32_t call = 0;        ///< number of the call that queued it
  std::uint64_t span = 0;        ///< Span::id of the innermost span in which it was queued; 0: none
};

/// True for kernels of NCCL: they move data between ranks.
bool is_communication(const DeviceActivity& activity);

/// The records that a profiler delivers, in any order.
struct DeviceRecords {
  std::vector<DeviceActivity> activities;                           // without their spans
  std::unordered_map<std::uint32_t, std::uint64_t> span_of_call{};  // ids by numbers of calls
  std::size_t lost = 0;                                             // records dropped for lack of memory
};

/// A GPU's activities during a recording, from CUPTI's records.
struct DeviceActivities {
  std::vector<DeviceActivity> all;  ///< sorted by `begin`
  std::string missing;  ///< why activities are missing, such as "built without CUPTI"; empty if none are
};

/// The activities of a recording from `begin` to `end`, each with its span. Activities without usable times
/// are left out, and counted in `missing`.
DeviceActivities resolve(DeviceRecords records, SpanClock::time_point begin, SpanClock::time_point end);

/// Records a GPU's activities with CUPTI (NVIDIA's profiling interface) from its construction to stop() or
/// its destruction. Only one can run at a time: a second one throws Error. Work that was queued before and
/// still runs is included. If CUPTI cannot record, activities().missing says why.
///
/// Each node of a CUDA graph is an activity; all of them belong to the span in which the graph was launched,
/// whichever span they were captured in.
class DeviceRecording {
 public:
  explicit DeviceRecording(Device device);
  ~DeviceRecording();
  DeviceRecording(const DeviceRecording&) = delete;
  DeviceRecording& operator=(const DeviceRecording&) = delete;

  /// Waits until the device is idle.
  void stop();
  /// Valid after stop().
  const DeviceActivities& activities() const { return activities_; }

 private:
  Device device_;
  SpanClock::time_point begin_ = SpanClock::now();
  bool is_running_ = false;
  DeviceActivities activities_;
};

/// For SpanScope: while a DeviceRecording runs, this thread enters the span with this id, inside of its open
/// spans, and leaves it. Work that it queues in between belongs to that span.
bool is_recording_device();
void enter_device_span(std::uint64_t id);
void leave_device_span();

/// The short name of a kernel: without parameters, return type and our own namespaces. `symbol` is the
/// mangled name, such as "_ZN8ringtape7on_cuda10sum_kernelEPKfl".
std::string kernel_name(const char* symbol);

}  // namespace ringtape
