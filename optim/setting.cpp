#include "optim/setting.h"

#include <cmath>
#include <limits>

#include "core/error.h"

namespace ringtape {

void check_setting(const std::string& owner, const char* name, double value) {
  check(std::isfinite(value) && value >= 0, "{}: {} must be finite and at least 0, found {}", owner, name,
        value);
  check(value <= std::numeric_limits<float>::max(), "{}: {} must be at most 3.4e38, found {}", owner, name,
        value);
}

void check_positive_setting(const std::string& owner, const char* name, double value) {
  check(std::isfinite(value) && value > 0, "{}: {} must be finite and positive, found {}", owner, name,
        value);
  check_setting(owner, name, value);
  check(static_cast<float>(value) > 0, "{}: {} must be at least 1.4e-45, found {}", owner, name, value);
}

}  // namespace ringtape
