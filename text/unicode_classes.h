#pragma once

namespace ringtape {

/// The classes of characters that GPT-2's tokenizer tells apart.
enum class CharacterClass {
  other,
  letter,  ///< general category L*: \p{L} of regular expressions
  number,  ///< general category N*: \p{N}
  space,   ///< property White_Space: \s
};

/// The class of a code point in Unicode 16.0.0, the version of tiktoken 0.14.0 (regex-syntax 0.8). A
/// character that only a newer version has is `other` here and perhaps a letter or a number there. A text
/// whose characters are in both versions is split in the same way by both.
CharacterClass class_of(char32_t code_point);

}  // namespace ringtape
