#include "io/parse.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace ringtape {
namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_int64(std::string_view text) {
  return parse<std::int64_t>(text);
}
std::optional<std::uint64_t> parse_uint64(std::string_view text) {
  return parse<std::uint64_t>(text);
}
std::optional<double> parse_double(std::string_view text) {
  return parse<double>(text);
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::optional<std::uint64_t> number = parse_uint64(text.substr(0, digits));
  std::string unit(text.substr(digits));
  for (char& letter : unit) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const auto power = [](std::uint64_t base, int exponent) {
    std::uint64_t result = 1;
    for (int i = 0; i < exponent; ++i) result *= base;
    return result;
  };
  constexpr std::string_view kPrefixes = "kmgt";
  const std::size_t prefix = unit.empty() ? std::string_view::npos : kPrefixes.find(unit[0]);
  const int exponent = prefix == std::string_view::npos ? 0 : static_cast<int>(prefix) + 1;
  const std::string rest = exponent == 0 ? unit : unit.substr(1);
  if (rest != "b" && !(rest == "ib" && exponent > 0)) return std::nullopt;
  const std::uint64_t factor = power(rest == "ib" ? 1024 : 1000, exponent);
  std::uint64_t bytes = 0;
  if (!number || __builtin_mul_overflow(*number, factor, &bytes)) return std::nullopt;
  return bytes;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

}  // namespace ringtape
