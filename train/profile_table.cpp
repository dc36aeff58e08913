#include "train/profile_table.h"

#include <fmt/format.h>

#include "kernels/limits.h"
#include "profile/device_time.h"
#include "profile/profile.h"

namespace ringtape {

Profile profile_of_steps(const RecordedSteps& steps, DType dtype) {
  const std::vector<DeviceActivity> activities = activities_of_steps(steps.spans(), steps.activities().all);
  const DeviceTime device = share_device_time(steps.spans(), activities);
  return make_profile({.spans = steps.spans(),
                       .wall = steps.wall(),
                       .memory = steps.memory().events(),
                       .memory_at_start = steps.memory().start().total(),
                       .device_times = device.of_span,
                       .device_busy = device.busy,
                       .is_of_gpu = steps.device().is_cuda(),
                       .shares_memory = steps.device().is_cpu() && steps.ranks() > 1,
                       .limits = measure_limits(steps.device(), dtype)});
}

void print_profile(Profile profile, const RecordedSteps& steps, ProfileColumn sort, Console console) {
  sort_rows(profile, sort);
  console.print("\nprofile of steps {} to {}, figures of one step:\n", steps.range().first,
                steps.range().last);
  console.print("{}", steps.what_is_missing());
  console.print("{}", profile_report(profile));
}

}  // namespace ringtape
