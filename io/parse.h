#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Parsing of numbers in flags, files and environment variables.
namespace ringtape {

/// The whole text as a number; nullopt for any other text, and for a number outside of the type's range.
std::optional<std::int64_t> parse_int64(std::string_view text);
std::optional<std::uint64_t> parse_uint64(std::string_view text);
/// The same for decimal fractions with or without an exponent, "inf" and "nan".
std::optional<double> parse_double(std::string_view text);

/// A number of bytes: an integer with a unit. kB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and TiB
/// powers of 1024; upper and lower case and a plain B are allowed. nullopt for any other text, and beyond
/// 2^64 - 1.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// The pieces of a text between separators: "3,,4" has three, one of them empty.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace ringtape
