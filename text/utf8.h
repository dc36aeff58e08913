#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringtape {

/// The character that begins at a byte of a text, or the reason why none does.
struct Utf8Sequence {
  enum class Kind {
    character,
    cut,      ///< the text ends inside of a character
    invalid,  ///< not UTF-8
  };
  Kind kind;
  char32_t code_point;  ///< of a character
  /// The bytes of the character, or the bytes that could have begun one, at least 1. A decoder that replaces
  /// invalid bytes writes one U+FFFD for these, as the Unicode standard recommends (section 3.9, maximal
  /// subparts).
  std::size_t bytes;
};

/// Reads the sequence at byte `at`, which must be inside of the text. UTF-8 as the Unicode standard defines
/// it (table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF.
Utf8Sequence read_utf8(std::string_view text, std::size_t at);

/// Throws Error, which begins with `name` and names the byte's offset from 0, for a text that is not UTF-8.
void check_utf8(std::string_view text, std::string_view name);

/// The UTF-8 of a code point.
std::string to_utf8(char32_t code_point);

}  // namespace ringtape
