#include "apps/profile_table.h"

#include <fmt/format.h>

#include "core/profile.h"

namespace ringtape::apps {

void print_profile(const RecordedSteps& steps, const std::string& sort) {
  Profile profile = make_profile(steps.spans(), steps.wall());
  sort_rows(profile, sort);
  fmt::print("\nprofile of steps {} to {}, figures of one step:\n", steps.range().first, steps.range().last);
  if (steps.device().is_cuda()) {
    fmt::print("(times of the host, which queues the work of {}: when it ran is not in here yet)\n",
               to_string(steps.device()));
  }
  fmt::print("{}", profile_report(profile));
}

}  // namespace ringtape::apps
