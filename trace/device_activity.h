#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/device.h"
#include "trace/spans.h"

/// What a GPU worked on and when, as its own clock saw it, and which span of the host had asked for it.
namespace ringtape {

enum class DeviceWork : std::uint8_t { kernel, copy, memset };

const char* name_of(DeviceWork work);

/// One kernel, copy or memset that has run.
struct DeviceActivity {
  DeviceWork work = DeviceWork::kernel;
  std::string name;               ///< of a kernel as in the source, or "copy host to device", "memset"
  SpanClock::time_point begin{};  ///< on the clock of the spans
  SpanClock::time_point end{};
  std::int64_t stream = 0;       ///< CUPTI's number of it
  std::int64_t bytes = 0;        ///< copied or set
  std::array<int, 3> grid{};     ///< of a kernel: its blocks
  std::array<int, 3> block{};    ///< and the threads of each
  std::uint64_t graph_node = 0;  ///< of the CUDA graph that it belongs to; 0: none
  std::uint32_t call = 0;        ///< number of the call that queued it
  std::uint64_t span = 0;        ///< Span::id of the innermost span in which it was queued; 0: none
};

/// True for kernels of NCCL: they move data between ranks.
bool is_communication(const DeviceActivity& activity);

/// What a profiler delivers, in any order.
struct DeviceRecords {
  std::vector<DeviceActivity> activities;                           // without their spans
  std::unordered_map<std::uint32_t, std::uint64_t> span_of_call{};  // ids by numbers of calls
  std::size_t lost = 0;                                             // for want of memory
};

struct DeviceActivities {
  std::vector<DeviceActivity> all;  ///< in the order in which they began
  std::string missing;  ///< why some or all are not there, such as "built without CUPTI"; empty where none is
};

/// The activities of a recording from `begin` to `end`, each with its span. Those without usable times are
/// left out, and counted in `missing`.
DeviceActivities resolve(DeviceRecords records, SpanClock::time_point begin, SpanClock::time_point end);

/// Records what a GPU does, from its construction to stop() or its end, by CUPTI (NVIDIA's profiling
/// interface). There can be one at a time: Error for a second. Work that was queued before belongs to it too
/// where it still runs.
///
/// The nodes of a CUDA graph are activities of their own; all of them belong to the span in which the graph
/// was launched, whichever span they were captured in.
class DeviceRecording {
 public:
  explicit DeviceRecording(Device device);
  ~DeviceRecording();
  DeviceRecording(const DeviceRecording&) = delete;
  DeviceRecording& operator=(const DeviceRecording&) = delete;

  /// Waits until the device is idle.
  void stop();
  /// To be read after stop().
  const DeviceActivities& activities() const { return activities_; }

 private:
  Device device_;
  SpanClock::time_point begin_ = SpanClock::now();
  bool is_running_ = false;
  DeviceActivities activities_;
};

/// For SpanScope: this thread is in the span with this id, inside of those that are open, and leaves it. What
/// it queues meanwhile is of that span. Without a DeviceRecording it does nothing.
bool is_recording_device();
void enter_device_span(std::uint64_t id);
void leave_device_span();

/// The name of a kernel as a person knows it: without parameters, return type and our own namespaces.
/// `symbol` is what the compiler made of it, such as "_ZN8ringtape7on_cuda10sum_kernelEPKfl".
std::string kernel_name(const char* symbol);

}  // namespace ringtape
