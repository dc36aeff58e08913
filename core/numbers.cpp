#include "core/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace ringtape {
namespace {

/// `value` with at most `digits` significant digits, without an exponent unless it is small.
std::string plain(double value, int digits) {
  const std::string text = fmt::format("{:.{}g}", value, digits);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  if (text[exponent + 1] == '+') return fmt::format("{:.0f}", value);
  const std::size_t power = text.find_first_not_of('0', exponent + 2);
  return text.substr(0, exponent) + "e-" + text.substr(power);
}

/// Divides `value` by `factor` (1000 or 1024) until it is below the next unit even when rounded to `digits`.
/// Returns the number of divisions.
std::size_t unit_of(double& value, double factor, std::size_t units, int digits) {
  const double most = factor * (1 - 0.5 * std::pow(10.0, -digits));
  std::size_t unit = 0;
  for (; std::fabs(value) >= most && unit + 1 < units; ++unit) value /= factor;
  return unit;
}

std::string plural(std::string_view noun, std::int64_t count) {
  return fmt::format("{}{}", noun, count == 1 ? "" : noun.ends_with("tch") ? "es" : "s");
}

}  // namespace

double without_nan_sign(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::string short_number(double value, int digits) {
  if (!std::isfinite(value)) return fmt::format("{}", without_nan_sign(value));
  constexpr std::array<const char*, 5> kUnits = {"", "k", "M", "G", "T"};
  const std::size_t unit = unit_of(value, 1000, kUnits.size(), digits);
  return plain(value, digits) + kUnits[unit];
}

std::string bytes_text(double bytes, int digits) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  const std::size_t unit = unit_of(bytes, 1024, kUnits.size(), digits);
  return fmt::format("{} {}", plain(bytes, bytes >= 1000 ? std::max(digits, 4) : digits), kUnits[unit]);
}

std::string time_text(double seconds) {
  if (seconds >= 120) {
    const auto whole = static_cast<long long>(std::llround(seconds));
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  if (seconds >= 0.9995) return plain(seconds, 3) + " s";
  if (seconds >= 0.9995e-3) return plain(seconds * 1e3, 3) + " ms";
  return plain(seconds * 1e6, 3) + " us";
}

std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool has_digit_before = i > 0 && digits[i - 1] != '-';
    if (has_digit_before && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

std::string grouped(std::int64_t number, const char* noun) {
  return grouped(number) + " " + plural(noun, number);
}

std::string counted(std::int64_t count, const char* noun) {
  return fmt::format("{} {}", count, plural(noun, count));
}

}  // namespace ringtape
