#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/spans.h"

/// A profile: where the time of some steps went, by operation and by phase, worked out from recorded spans.
namespace ringtape {

/// What one operation on inputs of certain shapes took in all steps together. A phase or a layer has a row
/// too, for what it did outside of any operation.
struct ProfileRow {
  std::string name;
  std::string shapes;
  std::int64_t calls = 0;
  SpanClock::duration self{};   ///< without the spans inside
  SpanClock::duration total{};  ///< with them
  SpanWork work;

  double gflops_per_second() const;  ///< by self time; 0 without FLOPs
  double gbytes_per_second() const;  ///< by self time; 0 without bytes
};

/// The time that the innermost phase around it is charged with: "data", "forward", ..., "waiting" for the
/// track of that name, and "other" for what lies in no phase.
struct ProfilePhase {
  std::string name;
  SpanClock::duration time{};
};

struct Profile {
  std::int64_t steps = 0;
  SpanClock::duration wall{};    ///< of all steps, by the clock of the one who asks
  std::vector<ProfileRow> rows;  ///< most self time first
  std::vector<ProfilePhase>
      phases;  ///< data, forward, backward, all-reduce, waiting, optimizer, others, other

  /// Of `wall`, what no span covers: idle, or work that nobody has marked. Below 0 where the rows add up to
  /// more than `wall`.
  SpanClock::duration idle() const;
  /// Share of `wall`, 0 to 1; 0 for a phase that is not there.
  double share_of_phase(std::string_view name) const;
};

/// Adds up the spans of the steps: those inside of a span of kind `step`, in its thread. `wall` is what the
/// steps took, measured apart from the spans.
Profile make_profile(std::span<const Span> spans, SpanClock::duration wall);

/// The columns of profile_report() that rows can be sorted by: self, total, calls, bytes, flops, gb/s,
/// gflop/s, and name. All but the name: largest first.
std::span<const std::string_view> profile_columns();
/// Sorts the rows; throws Error for a column that is not there.
void sort_rows(Profile& profile, std::string_view column);

/// The profile as text: a table by operation, one by phase, and what the shares suggest. Times, calls, bytes
/// and FLOPs are of one step, on average.
std::string profile_report(const Profile& profile);

}  // namespace ringtape
