#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory.h"
#include "kernels/machine_limits.h"
#include "trace/spans.h"

/// A profile: where the time and the memory of some steps went, by operation, layer and phase, worked out
/// from recorded spans and memory events.
namespace ringtape {

/// What one operation on inputs of certain shapes took in all steps together. A step, a phase or a layer has
/// a row too, for what it did outside of any operation.
struct ProfileRow {
  std::string name;
  std::string shapes;
  std::string layer;  ///< that an operation's calls were in; "1,3" or "24 layers" where they were in several
  std::int64_t calls = 0;
  SpanClock::duration self{};    ///< of the host, without the spans inside
  SpanClock::duration total{};   ///< with them
  SpanClock::duration device{};  ///< that a GPU worked on what it queued; 0: not known
  SpanWork work;
  /// Bytes taken less bytes given back, without the spans inside: "Self CPU Mem" of PyTorch's profiler.
  std::int64_t memory = 0;

  /// What rates are reckoned by: the device's time where it is known, else the host's.
  SpanClock::duration time() const { return device.count() > 0 ? device : self; }
  double gflops_per_second() const;  ///< 0 without FLOPs
  double gbytes_per_second() const;  ///< 0 without bytes
  /// The least time that the machine needs for the work by the one it took, 0 to 1 (above 1 where data stay
  /// in a cache, or where the limits were measured on a busy machine); 0 without work or limits.
  double share_of_limit(const MachineLimits& limits) const;
};

/// The time that the innermost phase around it is charged with: "data", "forward", ..., "waiting" for the
/// track of that name, and "other" for what lies in no phase.
struct ProfilePhase {
  std::string name;
  SpanClock::duration time{};
  SpanClock::duration device{};  ///< likewise of a GPU; 0: not known
};

/// A layer of the model: what ran in it, without the layers inside. Where it is recomputed in backward, that
/// belongs to its backward.
struct ProfileLayer {
  std::string name;  ///< such as "0" or "blocks.3.fc", "model" for the outermost, empty for no layer
  SpanClock::duration forward{};
  SpanClock::duration backward{};
  SpanClock::duration forward_device{};  ///< 0: not known
  SpanClock::duration backward_device{};
  SpanWork work;
  /// Bytes that its forward took and that were still live when the forward phase ended: what backward waits
  /// with. Of the forward that kept most.
  std::int64_t kept = 0;
};

struct Profile {
  std::int64_t steps = 0;
  SpanClock::duration wall{};         ///< of all steps, by the caller's clock
  SpanClock::duration device_busy{};  ///< of them, with a GPU at work; 0: not known
  std::vector<ProfileRow> rows;       ///< most self time first
  std::vector<ProfileLayer> layers;   ///< in the order in which they ran first; no layer last
  /// data, forward, backward, all-reduce, waiting, optimizer, others, other
  std::vector<ProfilePhase> phases;
  std::size_t memory_peak = 0;  ///< most bytes live at once in a step; 0: not recorded
  MachineLimits limits{};

  /// Of `wall`, what no span covers: idle, or work that nobody has marked. Below 0 where the rows add up to
  /// more than `wall`.
  SpanClock::duration idle() const;
  /// Whether a GPU's times are known.
  bool has_device_times() const;
  /// Share of `wall`, 0 to 1, of a GPU's time where that is known, as the host's is that of queueing; 0 for a
  /// phase that is not there.
  double share_of_phase(std::string_view name) const;
  /// The least time that the machine needs for all steps: the sum of what it needs for each row.
  double least_seconds() const;
};

/// What a profile is made of. All but the spans and `wall` may be left out.
struct ProfileInput {
  std::span<const Span> spans{};
  SpanClock::duration wall{};             ///< what the steps took, measured apart from the spans
  std::span<const MemoryEvent> memory{};  ///< of one device, in order
  std::size_t memory_at_start = 0;        ///< bytes live before the first of them
  /// Of a GPU: for each span what share_device_time() gives it (profile/device_time.h), and its busy time.
  std::span<const SpanClock::duration> device_times{};
  SpanClock::duration device_busy{};
  MachineLimits limits{};
};

/// Adds up the spans of the steps: those inside of a span of kind `step`, in its thread.
Profile make_profile(const ProfileInput& input);

/// The columns of profile_table() that rows can be sorted by, as its header has them but for the units. Texts
/// in the order of the alphabet, figures largest first.
std::span<const std::string_view> profile_columns();
/// Sorts the rows; throws Error for a column that is not there.
void sort_rows(Profile& profile, std::string_view column);

/// The table by operation as text, in lines of 120 characters (128 with times of a device). Times, calls,
/// bytes and FLOPs are of one step, on average.
std::string profile_table(const Profile& profile);
/// What the figures suggest, in a sentence or two a line.
std::vector<std::string> profile_verdict(const Profile& profile);
/// The profile as text: tables by operation, layer and phase, and the verdict.
std::string profile_report(const Profile& profile);

}  // namespace ringtape
