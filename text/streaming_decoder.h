#pragma once

#include <string>

#include "text/tokenizer.h"

namespace ringtape {

/// Turns tokens into text one by one, for printing while they are generated. A token may end inside of a
/// character: its bytes are held back until the character is complete. Bytes that are not valid UTF-8, which
/// a model can generate, become U+FFFD.
class StreamingDecoder {
 public:
  /// The tokenizer must outlive this object.
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The text that this token completes; may be empty.
  std::string push(std::int32_t id);
  /// The text at the end: U+FFFD if bytes of an unfinished character were held back.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;  // the beginning of a character
};

}  // namespace ringtape
