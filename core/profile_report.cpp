#include <fmt/format.h>

#include <algorithm>

#include "core/profile.h"

namespace ringtape {
namespace {

/// A share of the step from which on it is worth a remark.
constexpr double kMuchOptimizer = 0.15, kMuchData = 0.1, kMuchCommunication = 0.1, kMuchOther = 0.1;

double milliseconds(SpanClock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// A number with three digits, or a dash for 0: the operation has no such figure.
std::string figure(double value) {
  if (value == 0) return "-";
  return value < 1000 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string time_and_share(SpanClock::duration time, const Profile& profile) {
  const double wall = milliseconds(profile.wall);
  return fmt::format("{:>10.3f} {:>6.1f}%", milliseconds(time) / static_cast<double>(profile.steps),
                     wall > 0 ? 100 * milliseconds(time) / wall : 0.0);
}

/// One line of the table, without spaces at its end.
std::string trimmed(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string operations(const Profile& profile) {
  const auto steps = static_cast<double>(profile.steps);
  std::size_t width = std::string_view("idle, or not marked").size();
  for (const ProfileRow& row : profile.rows) width = std::max(width, row.name.size());
  std::string text =
      fmt::format("{:<{}} {:>6} {:>10} {:>7} {:>10} {:>8} {:>8} {:>8} {:>8}  {}\n", "operation", width,
                  "calls", "self ms", "share", "total ms", "MB", "MFLOP", "GB/s", "GFLOP/s", "shapes");
  for (const ProfileRow& row : profile.rows) {
    text += trimmed(fmt::format(
        "{:<{}} {:>6} {} {:>10.3f} {:>8} {:>8} {:>8} {:>8}  {}", row.name, width,
        figure(static_cast<double>(row.calls) / steps), time_and_share(row.self, profile),
        milliseconds(row.total) / steps, figure(static_cast<double>(row.work.bytes) * 1e-6 / steps),
        figure(static_cast<double>(row.work.flops) * 1e-6 / steps), figure(row.gbytes_per_second()),
        figure(row.gflops_per_second()), row.shapes));
  }
  text += fmt::format("{:<{}} {:>6} {}\n", "idle, or not marked", width, "",
                      time_and_share(profile.idle(), profile));
  return text + fmt::format("{:<{}} {:>6} {}\n", "step", width, "", time_and_share(profile.wall, profile));
}

std::string phases(const Profile& profile) {
  std::string text = fmt::format("{:<12} {:>10} {:>7}\n", "phase", "ms", "share");
  for (const ProfilePhase& phase : profile.phases) {
    text += fmt::format("{:<12} {}\n", phase.name, time_and_share(phase.time, profile));
  }
  return text + fmt::format("{:<12} {}\n", "idle", time_and_share(profile.idle(), profile));
}

std::string verdict(const Profile& profile) {
  const auto share = [&](std::string_view phase) { return profile.share_of_phase(phase); };
  std::string text = fmt::format("forward {:.1f}%, backward {:.1f}%, optimizer {:.1f}% of a step.\n",
                                 100 * share("forward"), 100 * share("backward"), 100 * share("optimizer"));
  if (share("optimizer") > kMuchOptimizer) {
    text += fmt::format(
        "The optimizer takes more than {:.0f}%: that speaks for more samples in an update, by accumulating "
        "more micro-batches.\n",
        100 * kMuchOptimizer);
  }
  if (share("data") > kMuchData) {
    text +=
        "Samples are waited for or prepared for more than a tenth of a step: the device could work "
        "meanwhile.\n";
  }
  if (share("waiting") + share("all-reduce") > kMuchCommunication) {
    text +=
        "Communication holds the step up for more than a tenth of it: larger micro-batches or more of them "
        "give it "
        "more to hide behind.\n";
  }
  const double rest =
      share("other") +
      (profile.wall.count() > 0 ? milliseconds(profile.idle()) / milliseconds(profile.wall) : 0.0);
  if (rest > kMuchOther) {
    text += "More than a tenth of a step lies in no phase: look there first.\n";
  }
  return text;
}

}  // namespace

std::string profile_report(const Profile& profile) {
  return operations(profile) + "\n" + phases(profile) + "\n" + verdict(profile);
}

}  // namespace ringtape
