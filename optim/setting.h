#pragma once

#include <string>

namespace ringtape {

/// Throws Error, which begins with `owner` and names the setting, unless a setting of an optimizer is at
/// least 0 and finite. The kernels compute in f32, so it must be at most 3.4e38; a value below 1.4e-45 is 0
/// there.
void check_setting(const std::string& owner, const char* name, double value);

/// The same for a setting that must not be 0 in f32 either, such as Adam's eps.
void check_positive_setting(const std::string& owner, const char* name, double value);

}  // namespace ringtape
