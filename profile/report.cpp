#include <algorithm>

#include "profile/text.h"

namespace ringtape {
namespace {

/// Time in forward and backward; of a GPU where that is known.
std::string layers(const Profile& profile) {
  const bool is_of_device = has_device_times(profile.layers);
  std::string text =
      fmt::format("{:<16} {:>10} {:>11} {:>7} {:>8} {:>8} {:>9}{}\n", "layer", "forward ms", "backward ms",
                  "share", "MB", "MFLOP", "kept MiB", is_of_device ? "   (times of the device)" : "");
  for (const ProfileLayer& layer : profile.layers) {
    const SpanClock::duration forward = layer.forward_time(is_of_device);
    const SpanClock::duration backward = layer.backward_time(is_of_device);
    text += fmt::format("{:<16} {:>10} {:>11} {:>7} {:>8} {:>8} {:>9}\n",
                        layer.name.empty() ? "(in no layer)" : layer.name, time_of_step(profile, forward),
                        time_of_step(profile, backward), share_of_step(profile, forward + backward),
                        millions_of_step(profile, layer.work.bytes),
                        millions_of_step(profile, layer.work.flops), figure(mebibytes(layer.kept)));
  }
  return text;
}

std::string phases(const Profile& profile) {
  const bool has_device = std::any_of(profile.phases.begin(), profile.phases.end(),
                                      [](const ProfilePhase& phase) { return phase.device.count() > 0; });
  std::string text = fmt::format("{:<{}} {:>10} {:>7}{}\n", "phase", kIdle.size(), "ms", "share",
                                 has_device ? "  device ms" : "");
  const auto line = [&](std::string_view name, SpanClock::duration time, std::string_view device) {
    return fmt::format("{:<{}} {:>10} {:>7}{}\n", name, kIdle.size(), time_of_step(profile, time),
                       share_of_step(profile, time), has_device ? fmt::format(" {:>10}", device) : "");
  };
  for (const ProfilePhase& phase : profile.phases) {
    text += line(phase.name, phase.time, time_of_step(profile, phase.device));
  }
  return text + line(kIdle, profile.idle(), "");
}

std::string limits(const MachineLimits& limits) {
  if (limits.bytes_per_second == 0 && limits.flops_per_second == 0) return "";
  return fmt::format(
      "limit: the least time for a row's FLOPs (F, at {:.4g} GFLOP/s) or bytes (B, at {:.3g} GB/s), "
      "as measured here\n",
      limits.flops_per_second * 1e-9, limits.bytes_per_second * 1e-9);
}

}  // namespace

std::string profile_report(const Profile& profile) {
  if (profile.steps == 0) return "no step was recorded\n";
  std::string text = profile_table(profile) + limits(profile.limits) + "\n";
  if (!profile.layers.empty()) text += layers(profile) + "\n";
  text += phases(profile) + "\n";
  for (const std::string& line : profile_verdict(profile)) text += line + "\n";
  return text;
}

}  // namespace ringtape
