#include "apps/profile_table.h"

#include <fmt/format.h>

#include "core/profile.h"
#include "kernels/limits.h"

namespace ringtape::apps {

void print_profile(const RecordedSteps& steps, const std::string& sort, DType dtype) {
  Profile profile = make_profile({.spans = steps.spans(),
                                  .wall = steps.wall(),
                                  .memory = steps.memory().events(),
                                  .memory_at_start = steps.memory().start().total(),
                                  .limits = measure_limits(steps.device(), dtype)});
  sort_rows(profile, sort);
  fmt::print("\nprofile of steps {} to {}, figures of one step:\n", steps.range().first, steps.range().last);
  fmt::print("{}", steps.what_is_missing());
  fmt::print("{}", profile_report(profile));
}

}  // namespace ringtape::apps
