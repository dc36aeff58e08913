#include "apps/profile_table.h"

#include <fmt/format.h>

#include "core/profile.h"

namespace ringtape::apps {

void print_profile(const RecordedSteps& steps, const std::string& sort) {
  Profile profile = make_profile(steps.spans(), steps.wall());
  sort_rows(profile, sort);
  fmt::print("\nprofile of steps {} to {}, figures of one step:\n", steps.range().first, steps.range().last);
  fmt::print("{}", steps.what_is_missing());
  fmt::print("{}", profile_report(profile));
}

}  // namespace ringtape::apps
