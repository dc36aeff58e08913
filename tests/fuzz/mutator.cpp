#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <iterator>

namespace ringtape::fuzz {
namespace {

constexpr std::uint64_t kEdgeValues[] = {
    0,
    1,
    2,
    4,
    5,
    7,
    8,
    127,
    128,
    255,
    256,
    0x7fff,
    0x8000,
    0xffff,
    0x7fffffff,
    0x80000000,
    0xffffffff,
    100'000'000,
    100'000'001,
    0x7fffffffffffffff,
    0x8000000000000000,
    0xffffffffffffffff,
};

const char* const kTokens[] = {
    "0",
    "1",
    "-1",
    "3",
    "1.0",
    "1e3",
    "1e400",
    "nan",
    "inf",
    "4294967295",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\n",
    "\\u0000",
    "null",
    "true",
    "F64",
    "U8",
    "\"dtype\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"__metadata__\"",
    ",,",
};

}  // namespace

std::string Mutator::mutate(const std::vector<std::string>& seeds) {
  std::string bytes = seeds[below(seeds.size())];
  for (std::size_t i = 1 + below(5); i > 0; --i) change(bytes, seeds);
  return bytes;
}

void Mutator::change(std::string& bytes, const std::vector<std::string>& seeds) {
  const std::size_t at = below(bytes.size() + 1);
  const std::size_t length = std::min(bytes.size() - at, 1 + below(16));
  switch (below(9)) {
    case 0:  // flip a bit
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:  // another byte
      if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
      break;
    case 2:  // cut off
      bytes.resize(at);
      break;
    case 3:  // take a piece out
      bytes.erase(at, length);
      break;
    case 4:  // repeat a piece
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 5: {  // go on with another file
      const std::string& other = seeds[below(seeds.size())];
      bytes = bytes.substr(0, at) + other.substr(below(other.size() + 1));
      break;
    }
    case 6:  // put in a word of the formats
      bytes.replace(at, one_in(2) ? length : 0, kTokens[below(std::size(kTokens))]);
      break;
    case 7:
      change_number(bytes);
      break;
    default:
      change_length_field(bytes);
  }
}

// Replaces a number written in digits.
void Mutator::change_number(std::string& bytes) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1));
  const auto first = std::find_if(from, bytes.end(), is_digit);
  const auto last = std::find_if_not(first, bytes.end(), is_digit);
  if (first != last) bytes.replace(first, last, std::to_string(kEdgeValues[below(std::size(kEdgeValues))]));
}

// Overwrites 4 or 8 bytes near the start with a number in either byte order, so that it differs from the old
// one a little or a lot.
void Mutator::change_length_field(std::string& bytes) {
  const std::size_t width = one_in(2) ? 4 : 8;
  const std::size_t at = one_in(3) ? 0 : below(20);
  if (at + width > bytes.size()) return;
  std::uint64_t value = kEdgeValues[below(std::size(kEdgeValues))];
  if (one_in(2)) {
    std::memcpy(&value, bytes.data() + at, width);
    value += below(5) - 2;
  }
  std::array<char, 8> field;
  std::memcpy(field.data(), &value, sizeof value);
  if (one_in(2)) std::reverse(field.begin(), field.begin() + static_cast<std::ptrdiff_t>(width));
  std::copy_n(field.begin(), width, bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace ringtape::fuzz
