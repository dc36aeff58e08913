#pragma once

#include "text/tokenizer.h"

namespace ringtape {

/// Each byte is a token: 256 tokens, which can encode every text in UTF-8.
class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer();
  std::vector<std::int32_t> encode(std::string_view text) const override;
};

}  // namespace ringtape
