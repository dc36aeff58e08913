#include <algorithm>

#include "core/profile_text.h"

namespace ringtape {
namespace {

/// A share from which on, or up to which, something is worth a remark.
constexpr double kMuchOptimizer = 0.15, kMuchData = 0.1, kMuchCommunication = 0.1, kMuchOther = 0.1;
constexpr double kBusyDevice = 0.8, kMuchMemory = 0.9, kLittleMemory = 0.5, kNearLimit = 0.8;

double part(double of, double whole) {
  return whole > 0 ? of / whole : 0.0;
}

std::string shares(const Profile& profile) {
  std::string text;
  for (const std::string_view phase : {"data", "forward", "backward", "optimizer"}) {
    text += fmt::format("{} {}, ", phase, percent(profile.share_of_phase(phase)));
  }
  const double communication = profile.share_of_phase("all-reduce") + profile.share_of_phase("waiting");
  if (communication >= 0.005) text += fmt::format("communication {}, ", percent(communication));
  return text.substr(0, text.size() - 2) + " of a step.";
}

/// What a GPU's activities say, or on the CPU the spans: there an operation has ended with its call.
std::string busy(const Profile& profile) {
  if (profile.device_busy.count() == 0) {
    return fmt::format("Busy: {} of the time lies in marked work.",
                       percent(1 - part(milliseconds(profile.idle()), milliseconds(profile.wall))));
  }
  const double share = part(milliseconds(profile.device_busy), milliseconds(profile.wall));
  std::string text = fmt::format("Busy: the GPU works for {} of the time.", percent(share));
  if (share < kBusyDevice) {
    text += " It waits for the host: larger micro-batches give it more to do, and --graph queues it at once.";
  }
  return text;
}

std::string memory(const Profile& profile) {
  const double share =
      part(static_cast<double>(profile.memory_peak), static_cast<double>(profile.limits.memory));
  std::string text = fmt::format("Memory: {:.0f} MB at most, {} of {:.0f} MB.",
                                 static_cast<double>(profile.memory_peak) * 1e-6, percent(share),
                                 static_cast<double>(profile.limits.memory) * 1e-6);
  if (share < kLittleMemory) text += " There is room for larger micro-batches.";
  if (share > kMuchMemory) text += " Smaller micro-batches or recomputed layers keep clear of the end.";
  return text;
}

/// How near the whole is to what the machine could do, and which row loses most.
std::string distance(const Profile& profile) {
  double least = 0;
  const ProfileRow* slowest = nullptr;
  double lost = 0;
  for (const ProfileRow& row : profile.rows) {
    const double needed = profile.limits.least_seconds(row.work) * 1e3;
    const double loses = milliseconds(row.time()) - needed;
    least += needed;
    if (needed > 0 && loses > lost) {
      lost = loses;
      slowest = &row;
    }
  }
  const double share = part(least, milliseconds(profile.wall));
  std::string text =
      fmt::format("Limits: the work of a step needs {:.3f} ms at the least, {} of what it takes",
                  least / static_cast<double>(profile.steps), percent(share));
  text += share > 1 ? ": its data stay in caches, which are faster than memory." : ".";
  if (slowest != nullptr && slowest->share_of_limit(profile.limits) < kNearLimit) {
    text += fmt::format(" Most is lost in {} {}: {:.3f} ms.", slowest->name, slowest->shapes,
                        lost / static_cast<double>(profile.steps));
  }
  return text;
}

}  // namespace

std::vector<std::string> profile_verdict(const Profile& profile) {
  const auto share = [&](std::string_view phase) { return profile.share_of_phase(phase); };
  std::vector<std::string> lines = {shares(profile), busy(profile)};
  if (profile.memory_peak > 0 && profile.limits.memory > 0) lines.push_back(memory(profile));
  if (profile.limits.flops_per_second > 0) lines.push_back(distance(profile));
  if (share("optimizer") > kMuchOptimizer) {
    lines.push_back(
        fmt::format("The optimizer takes more than {:.0f}%: that speaks for more samples in an update, by "
                    "accumulating more micro-batches.",
                    100 * kMuchOptimizer));
  }
  if (share("data") > kMuchData) {
    lines.push_back(
        "Samples are waited for or prepared for more than a tenth of a step: the device could work "
        "meanwhile.");
  }
  if (share("waiting") + share("all-reduce") > kMuchCommunication) {
    lines.push_back(
        "Communication holds the step up for more than a tenth of it: larger micro-batches or more of them "
        "give "
        "it more to hide behind.");
  }
  if (share("other") + part(milliseconds(profile.idle()), milliseconds(profile.wall)) > kMuchOther) {
    lines.push_back("More than a tenth of a step lies in no phase: look there first.");
  }
  return lines;
}

}  // namespace ringtape
