#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "kernels/machine_limits.h"
#include "trace/spans.h"

/// A profile: time and memory of some steps by operation, layer and phase, computed from recorded spans and
/// memory events.
namespace ringtape {

/// The cost of one operation with inputs of certain shapes, over all steps. A step, a phase or a layer has a
/// row too, for its time outside of any operation.
struct ProfileRow {
  std::string name;
  std::string shapes;
  std::string layer;  ///< the layer of an operation's calls; "1,3" or "24 layers" for several
  std::int64_t calls = 0;
  SpanClock::duration self{};    ///< of the host, without inner spans
  SpanClock::duration total{};   ///< of the host, with inner spans
  SpanClock::duration device{};  ///< of the GPU, for the work that the operation queued; 0: not known
  SpanWork work;
  /// Bytes allocated less bytes freed, without inner spans: "Self CPU Mem" of PyTorch's profiler.
  std::int64_t memory = 0;

  /// `self` is the time of queueing work for a GPU, and how long that took is not known.
  bool only_queues = false;

  /// The time for the rates: the device's where it is known, else the host's; 0: not known.
  SpanClock::duration time() const {
    return device.count() > 0 ? device : only_queues ? SpanClock::duration{} : self;
  }
  double gflops_per_second() const;  ///< 0 without FLOPs or time()
  double gbytes_per_second() const;  ///< 0 without bytes or time()
  /// The least time that the machine needs for the work over the measured time: 0 to 1 (above 1 where data
  /// stay in a cache, or where the limits were measured on a busy machine); 0 without work, limits or time().
  double share_of_limit(const MachineLimits& limits) const;
};

/// The time of a phase; time counts for the innermost phase: "data", "forward", ..., "waiting" for the track
/// of that name, and "other" for time outside of all phases.
struct ProfilePhase {
  std::string name;
  SpanClock::duration time{};
  SpanClock::duration device{};  ///< likewise of a GPU; 0: not known
};

/// A layer of the model, without inner layers. Its recomputation in backward counts as backward.
struct ProfileLayer {
  std::string name;  ///< such as "0" or "blocks.3.fc", "model" for the outermost, empty for no layer
  SpanClock::duration forward{};
  SpanClock::duration backward{};
  SpanClock::duration forward_device{};  ///< 0: not known
  SpanClock::duration backward_device{};
  /// The times for tables: with `of_device` (see has_device_times()) those of the GPU, else of the host.
  SpanClock::duration forward_time(bool of_device) const { return of_device ? forward_device : forward; }
  SpanClock::duration backward_time(bool of_device) const { return of_device ? backward_device : backward; }
  SpanWork work;
  /// Bytes allocated in its forward and still live when the forward phase ended, kept for backward. The
  /// largest of all forwards.
  std::int64_t kept = 0;
};

/// Whether times of a GPU are known.
bool has_device_times(const std::vector<ProfileLayer>& layers);

/// The times of some steps by operation, layer and phase.
struct Profile {
  std::int64_t steps = 0;
  SpanClock::duration wall{};         ///< of all steps, by the caller's clock
  SpanClock::duration device_busy{};  ///< of `wall`, with a GPU at work; 0: not known
  std::vector<ProfileRow> rows;       ///< most self time first
  std::vector<ProfileLayer> layers;   ///< in the order of their first run; "no layer" last
  /// In this order: data, forward, backward, all-reduce, waiting, optimizer, any others, "other".
  std::vector<ProfilePhase> phases;
  std::size_t memory_peak = 0;  ///< most bytes live at once in a step; 0: not recorded
  MachineLimits limits{};
  bool shares_memory = false;  ///< limits.memory holds other ranks' tensors too

  /// The part of `wall` that no span covers: idle, or work without a span. Below 0 where the rows add up to
  /// more than `wall`.
  SpanClock::duration idle() const;
  /// Whether a GPU's times are known.
  bool has_device_times() const;
  /// Whether the profile is of a GPU whose times are not known: the host's times are those of queueing.
  bool only_queues() const;
  /// Share of `wall`, 0 to 1, by the GPU's time where that is known (the host's is then the time of
  /// queueing); 0 for an unknown phase.
  double share_of_phase(std::string_view name) const;
  /// The least time that the machine needs for all steps: the sum over the rows.
  double least_seconds() const;
};

/// The inputs of a profile. All but the spans and `wall` may be left out.
struct ProfileInput {
  std::span<const Span> spans{};
  SpanClock::duration wall{};             ///< time of the steps, measured apart from the spans
  std::span<const MemoryEvent> memory{};  ///< of one device, in order
  std::size_t memory_at_start = 0;        ///< bytes live before the first of them
  /// For a GPU: each span's time from share_device_time() (profile/device_time.h), and the GPU's busy time.
  std::span<const SpanClock::duration> device_times{};
  SpanClock::duration device_busy{};
  bool is_of_gpu = false;      ///< without device_busy the GPU's times are not known
  bool shares_memory = false;  ///< see Profile
  MachineLimits limits{};
};

/// Adds up the spans inside of steps (spans of kind `step`), in the thread of the first step.
Profile make_profile(const ProfileInput& input);

/// The columns of profile_table() by which rows can be sorted.
enum class ProfileColumn {
  self,
  share,
  total,
  device,
  calls,
  bytes,
  flops,
  byte_rate,
  flop_rate,
  limit,
  memory,
  operation,
  layer,
  shapes
};
/// All columns, named as in the table's header but without units.
const std::vector<std::pair<std::string, ProfileColumn>>& profile_columns();
/// Sorts the rows by a column: texts alphabetically, numbers largest first.
void sort_rows(Profile& profile, ProfileColumn column);

/// The table by operation as text, in lines of at most 120 characters (128 with times of a device). Times,
/// calls, bytes and FLOPs are of one step, on average.
std::string profile_table(const Profile& profile);
/// Conclusions from the figures, one or two sentences in each line.
std::vector<std::string> profile_verdict(const Profile& profile);
/// The profile as text: tables by operation, layer and phase, and the verdict.
std::string profile_report(const Profile& profile);

}  // namespace ringtape
