#include "text/byte_tokenizer.h"

#include "text/utf8.h"

namespace ringtape {
namespace {

std::vector<std::string> all_bytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

}  // namespace

ByteTokenizer::ByteTokenizer() : Tokenizer(TokenizerKind::bytes, all_bytes(), 0) {}

std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text) const {
  check_utf8(text, "text");
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

}  // namespace ringtape
