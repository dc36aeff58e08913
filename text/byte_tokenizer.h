#pragma once

#include "text/tokenizer.h"

namespace ringtape {

/// Each byte is a token: 256 of them, and every text can be written.
class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer();
  std::vector<std::int32_t> encode(std::string_view text) const override;
};

}  // namespace ringtape
