#pragma once

#include "text/tokenizer.h"

namespace ringtape {

/// Each character (code point) of a training text is a token; ids follow the order of the code points, as in
/// nanoGPT's prepare.py for character-level data.
class CharacterTokenizer : public Tokenizer {
 public:
  /// The characters of `text`, each counted once. Throws Error for a text that is empty or not UTF-8.
  explicit CharacterTokenizer(std::string_view text);

  std::vector<std::int32_t> encode(std::string_view text) const override;

  /// All characters in the order of their ids. CharacterTokenizer(characters()) is the same tokenizer, so a
  /// trained model stores this text.
  std::string characters() const;

 private:
  explicit CharacterTokenizer(std::vector<char32_t> sorted);

  std::vector<char32_t> sorted_;  // the code point of each id
};

}  // namespace ringtape
