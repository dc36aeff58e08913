#include "text/character_tokenizer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/quote.h"
#include "io/checksum.h"
#include "text/utf8.h"

namespace ringtape {
namespace {

std::vector<char32_t> sorted_characters(std::string_view text) {
  check(!text.empty(), "CharacterTokenizer: the text is empty, expected the characters of the vocabulary");
  check_utf8(text, "text");
  std::set<char32_t> characters;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Sequence character = read_utf8(text, at);
    characters.insert(character.code_point);
    at += character.bytes;
  }
  return {characters.begin(), characters.end()};
}

std::vector<std::string> utf8_of_each(const std::vector<char32_t>& characters) {
  std::vector<std::string> tokens;
  for (const char32_t character : characters) tokens.push_back(to_utf8(character));
  return tokens;
}

}  // namespace

CharacterTokenizer::CharacterTokenizer(std::string_view text) : CharacterTokenizer(sorted_characters(text)) {}

CharacterTokenizer::CharacterTokenizer(std::vector<char32_t> sorted)
    : Tokenizer(TokenizerKind::characters, utf8_of_each(sorted),
                crc32(0, sorted.data(), sorted.size() * sizeof(char32_t))),
      sorted_(std::move(sorted)) {}

std::vector<std::int32_t> CharacterTokenizer::encode(std::string_view text) const {
  check_utf8(text, "text");
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Sequence character = read_utf8(text, at);
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), character.code_point);
    if (found == sorted_.end() || *found != character.code_point) {
      fail("text: the character {} (U+{:04X}) at byte {} is none of the tokenizer's {}",
           quote(text.substr(at, character.bytes)), static_cast<std::uint32_t>(character.code_point), at,
           sorted_.size());
    }
    ids.push_back(static_cast<std::int32_t>(found - sorted_.begin()));
    at += character.bytes;
  }
  return ids;
}

std::string CharacterTokenizer::characters() const {
  std::string text;
  for (const char32_t character : sorted_) text += to_utf8(character);
  return text;
}

}  // namespace ringtape
