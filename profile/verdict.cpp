#include <algorithm>
#include <array>
#include <utility>

#include "profile/text.h"

namespace ringtape {
namespace {

/// Thresholds: shares above or below which the verdict adds a remark.
constexpr double kMuchOptimizer = 0.15, kMuchData = 0.1, kMuchCommunication = 0.1, kMuchOther = 0.1;
constexpr double kBusyDevice = 0.8, kMuchMemory = 0.9, kLittleMemory = 0.5, kWorthAWord = 0.005;
/// Backward's time over forward's.
constexpr double kLittleBackward = 1, kMuchBackward = 2.5;

double part(double of, double whole) {
  return whole > 0 ? of / whole : 0.0;
}

std::string shares(const Profile& profile) {
  std::string text;
  for (const std::string_view phase : {"data", "forward", "backward", "optimizer"}) {
    text += fmt::format("{} {}, ", phase, percent(profile.share_of_phase(phase)));
  }
  const double communication = profile.share_of_phase("all-reduce") + profile.share_of_phase("waiting");
  if (communication >= kWorthAWord) text += fmt::format("communication {}, ", percent(communication));
  return text.substr(0, text.size() - 2) + " of a step.";
}

/// The time of waiting for samples: the training loop's span "load batch".
SpanClock::duration loading(const Profile& profile) {
  SpanClock::duration sum{};
  for (const ProfileRow& row : profile.rows)
    sum += row.name == "load batch" ? row.self : SpanClock::duration{};
  return sum;
}

/// On the CPU an operation has ended when its call returns, so the host's time is the device's.
std::string busy_cpu(const Profile& profile) {
  const double wall = milliseconds(profile.wall);
  const std::array<std::pair<double, const char*>, 3> others = {
      std::pair{profile.share_of_phase("waiting"), "waiting for other ranks"},
      std::pair{part(milliseconds(loading(profile)), wall), "waiting for samples"},
      std::pair{part(milliseconds(profile.idle()), wall), "not marked"}};
  double busy = 1;
  std::string text;
  for (const auto& [share, what] : others) {
    busy -= share;
    if (share >= kWorthAWord)
      text += fmt::format("{}{} {}", text.empty() ? "; " : ", ", percent(share), what);
  }
  return fmt::format("Busy: {} of the time{}.", percent(busy), text);
}

/// How busy the GPU was, from its activities.
std::string busy_gpu(const Profile& profile) {
  const double share = part(milliseconds(profile.device_busy), milliseconds(profile.wall));
  std::string text = fmt::format("Busy: the GPU works for {} of the time.", percent(share));
  if (share >= kBusyDevice) return text;
  if (part(milliseconds(loading(profile)), milliseconds(profile.wall)) > kMuchData) {
    return text + " It waits for the host, and the host for samples.";
  }
  return text +
         " It waits for the host: larger micro-batches give it more to do, and --graph queues it at once.";
}

std::string memory(const Profile& profile) {
  const double share =
      part(static_cast<double>(profile.memory_peak), static_cast<double>(profile.limits.memory));
  std::string text =
      fmt::format("Memory: {:.0f} MiB at most, {} of {:.0f} MiB.", mebibytes(profile.memory_peak),
                  percent(share), mebibytes(profile.limits.memory));
  if (share < kLittleMemory && !profile.shares_memory) text += " There is room for larger micro-batches.";
  if (share > kMuchMemory) text += " Smaller micro-batches or recomputation leave more room.";
  return text;
}

/// Why the work took less time than the limits allow; empty where it did not.
std::string why_above_limit(const Profile& profile) {
  const bool is_above_flops =
      std::any_of(profile.rows.begin(), profile.rows.end(), [&](const ProfileRow& row) {
        return row.share_of_limit(profile.limits) > 1 && profile.limits.is_limited_by_flops(row.work);
      });
  // No cache makes a product faster than multiply-adds in registers.
  if (is_above_flops) return "; rows are above 100% F, so that the limits were measured on a busy machine";
  return profile.least_seconds() > seconds(profile.wall)
             ? ": its data stay in caches, which are faster than memory"
             : "";
}

/// The row with the most time beyond its least time; it may be waiting, work without a formula, or idle time.
std::string most_lost(const Profile& profile) {
  const bool is_of_device = profile.has_device_times();
  std::string name = is_of_device ? "an idle GPU" : "what is idle or not marked";
  double lost = seconds(is_of_device ? profile.wall - profile.device_busy : profile.idle());
  for (const ProfileRow& row : profile.rows) {
    const double loses =
        seconds(is_of_device ? row.device : row.self) - profile.limits.least_seconds(row.work);
    if (loses <= lost) continue;
    lost = loses;
    name = row.shapes.empty() ? row.name : row.name + " " + row.shapes;
  }
  if (lost <= 0) return "";
  return fmt::format(" Most is lost in {}: {:.3f} ms, {} of a step.", name,
                     lost * 1e3 / static_cast<double>(profile.steps),
                     percent(part(lost, seconds(profile.wall))));
}

/// How near the step is to the machine's limits.
std::string distance(const Profile& profile) {
  const double least = profile.least_seconds();
  return fmt::format("Limits: the work of a step needs {:.3f} ms at the least, {} of what it takes{}.{}",
                     least * 1e3 / static_cast<double>(profile.steps),
                     percent(part(least, seconds(profile.wall))), why_above_limit(profile),
                     most_lost(profile));
}

/// Backward of a matrix product makes two products, one for each operand's gradient; the first layer's makes
/// one, as its input needs no gradient.
std::string passes(double forward, double backward) {
  const double times = part(backward, forward);
  const char* const says =
      times < kLittleBackward ? ", though it has more products: look at forward's rows that are not products"
      : times > kMuchBackward
          ? ", more than its products need: recomputation and adding up gradients count as backward"
          : ", about what its products need: two for each of forward's, one in the first layer";
  return fmt::format("Backward takes {:.1f} times forward{}.", times, says);
}

}  // namespace

std::vector<std::string> profile_verdict(const Profile& profile) {
  const auto share = [&](std::string_view phase) { return profile.share_of_phase(phase); };
  std::vector<std::string> lines;
  if (profile.only_queues()) {
    lines.push_back("How busy the GPU was is not known: times are of the host, which queues its work.");
  } else {
    lines = {shares(profile), profile.device_busy.count() == 0 ? busy_cpu(profile) : busy_gpu(profile)};
  }
  if (profile.memory_peak > 0 && profile.limits.memory > 0) lines.push_back(memory(profile));
  if (profile.only_queues()) return lines;  // the rest is about times of work
  if (profile.limits.flops_per_second > 0) lines.push_back(distance(profile));
  if (share("forward") > 0 && share("backward") > 0) {
    lines.push_back(passes(share("forward"), share("backward")));
  }
  if (share("optimizer") > kMuchOptimizer) {
    lines.push_back(
        fmt::format("The optimizer takes more than {:.0f}%: accumulating more micro-batches in an update "
                    "makes its share smaller.",
                    100 * kMuchOptimizer));
  }
  if (share("data") > kMuchData) {
    lines.push_back(
        "Samples are waited for or prepared during more than a tenth of a step, while the device could "
        "work.");
  }
  if (share("waiting") + share("all-reduce") > kMuchCommunication) {
    lines.push_back(
        "Communication holds the step up for more than a tenth of it: larger micro-batches or more of "
        "them give it more to hide behind.");
  }
  // busy_gpu() has reported an idle GPU already.
  const SpanClock::duration idle = profile.has_device_times() ? SpanClock::duration{} : profile.idle();
  if (share("other") + part(milliseconds(idle), milliseconds(profile.wall)) > kMuchOther) {
    lines.push_back("More than a tenth of a step lies in no phase: look there first.");
  }
  return lines;
}

}  // namespace ringtape
