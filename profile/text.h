#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/numbers.h"
#include "profile/profile.h"

/// Number formats of a profile, for the tables and the report.
namespace ringtape {

/// The name of Profile::idle() in tables.
inline constexpr std::string_view kIdle = "idle, or not marked";

inline double seconds(SpanClock::duration time) {
  return std::chrono::duration<double>(time).count();
}
inline double milliseconds(SpanClock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// A number of at most five characters and a sign: below 100 three significant digits and at most three
/// decimals, whole from 100 on, in thousands ("100k") from 100,000 on. 0 means unknown and is a dash; other
/// numbers that round to 0 are 0.000.
inline std::string figure(double value) {
  const double size = value < 0 ? -value : value;
  if (size == 0) return "-";
  if (size < 0.0005) return "0.000";
  if (size >= 99999.5) return fmt::format("{:.0f}k", value * 1e-3);
  return fmt::format("{:.{}f}", value, size < 0.9995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

inline std::string percent(double share) {
  return fmt::format("{:.{}f}%", 100 * share, share < 0.9995 ? 1 : 0);
}

/// Milliseconds of one step, and the share of the step.
inline std::string time_of_step(const Profile& profile, SpanClock::duration sum) {
  const double value = milliseconds(sum) / static_cast<double>(profile.steps);
  return fmt::format("{:.{}f}", value, value < 1000 ? 3 : 1);
}
inline std::string share_of_step(const Profile& profile, SpanClock::duration sum) {
  return percent(profile.wall.count() > 0 ? milliseconds(sum) / milliseconds(profile.wall) : 0.0);
}
/// Millions a step.
inline std::string millions_of_step(const Profile& profile, std::int64_t sum) {
  return figure(static_cast<double>(sum) * 1e-6 / static_cast<double>(profile.steps));
}

}  // namespace ringtape
