#include "text/gpt2_pieces.h"

#include <array>

#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace ringtape {
namespace {

struct ClassifiedCharacter {
  CharacterClass kind;
  std::size_t bytes;
};

std::array<CharacterClass, 128> classes_of_ascii() {
  std::array<CharacterClass, 128> classes;
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = class_of(static_cast<char32_t>(i));
  return classes;
}

ClassifiedCharacter character_at(std::string_view text, std::size_t at) {
  static const std::array<CharacterClass, 128> kAscii = classes_of_ascii();
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < kAscii.size()) return {kAscii[byte], 1};
  const Utf8Sequence character = read_utf8(text, at);
  return {class_of(character.code_point), character.bytes};
}

/// The end of the characters of one class that begin at `at`.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const ClassifiedCharacter next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

/// The bytes of an English ending at the beginning of `text`, or 0.
std::size_t ending_bytes(std::string_view text) {
  if (text.empty() || text[0] != '\'') return 0;
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

/// The end of the space that begins at `at`: before a word its last character is left out, to go with the
/// word if it is a blank, or to stand alone.
std::size_t end_of_space(std::string_view text, std::size_t at) {
  std::size_t end = at, last = at;
  while (end < text.size()) {
    const ClassifiedCharacter next = character_at(text, end);
    if (next.kind != CharacterClass::space) return last > at ? last : end;
    last = end;
    end += next.bytes;
  }
  return end;
}

}  // namespace

std::size_t end_of_gpt2_piece(std::string_view text, std::size_t at) {
  if (const std::size_t bytes = ending_bytes(text.substr(at)); bytes > 0) return at + bytes;
  const std::size_t word = text[at] == ' ' ? at + 1 : at;
  if (word < text.size()) {
    const CharacterClass kind = character_at(text, word).kind;
    if (kind != CharacterClass::space) return end_of_run(text, word, kind);
  }
  return end_of_space(text, at);
}

}  // namespace ringtape
