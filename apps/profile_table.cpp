#include "apps/profile_table.h"

#include <fmt/format.h>

#include "core/device_time.h"
#include "core/profile.h"
#include "kernels/limits.h"

namespace ringtape::apps {

Profile profile_of(const RecordedSteps& steps, DType dtype) {
  const DeviceTime device = share_device_time(steps.spans(), steps.activities().all);
  return make_profile({.spans = steps.spans(),
                       .wall = steps.wall(),
                       .memory = steps.memory().events(),
                       .memory_at_start = steps.memory().start().total(),
                       .device_times = device.of_span,
                       .device_busy = device.busy,
                       .limits = measure_limits(steps.device(), dtype)});
}

void print_profile(Profile profile, const RecordedSteps& steps, const std::string& sort) {
  sort_rows(profile, sort);
  fmt::print("\nprofile of steps {} to {}, figures of one step:\n", steps.range().first, steps.range().last);
  fmt::print("{}", steps.what_is_missing());
  fmt::print("{}", profile_report(profile));
}

}  // namespace ringtape::apps
