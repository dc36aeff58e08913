#include "text/utf8.h"

#include "core/error.h"
#include "core/quote.h"

namespace ringtape {
namespace {

/// The meaning of a first byte: the bytes of the character, its bits of the code point, and the range of the
/// second byte, which rules out overlong forms, surrogates, and numbers above U+10FFFF.
struct FirstByte {
  std::size_t bytes;
  unsigned bits;
  unsigned second_from, second_to;
};

FirstByte first_byte(unsigned byte) {
  if (byte < 0x80) return {1, byte, 0, 0};
  if (byte < 0xC2 || byte > 0xF4) return {0, 0, 0, 0};
  if (byte < 0xE0) return {2, byte & 0x1F, 0x80, 0xBF};
  if (byte < 0xF0) return {3, byte & 0x0F, byte == 0xE0 ? 0xA0u : 0x80u, byte == 0xED ? 0x9Fu : 0xBFu};
  return {4, byte & 0x07, byte == 0xF0 ? 0x90u : 0x80u, byte == 0xF4 ? 0x8Fu : 0xBFu};
}

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

Utf8Sequence read_utf8(std::string_view text, std::size_t at) {
  using Kind = Utf8Sequence::Kind;
  const FirstByte first = first_byte(byte_at(text, at));
  if (first.bytes == 0) return {Kind::invalid, 0, 1};
  char32_t code_point = first.bits;
  for (std::size_t i = 1; i < first.bytes; ++i) {
    if (at + i == text.size()) return {Kind::cut, 0, i};
    const unsigned byte = byte_at(text, at + i);
    const unsigned from = i == 1 ? first.second_from : 0x80, to = i == 1 ? first.second_to : 0xBF;
    if (byte < from || byte > to) return {Kind::invalid, 0, i};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {Kind::character, code_point, first.bytes};
}

void check_utf8(std::string_view text, std::string_view name) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Sequence sequence = read_utf8(text, at);
    if (sequence.kind == Utf8Sequence::Kind::cut) {
      fail("{}: ends inside of a UTF-8 character that begins at byte {}", name, at);
    }
    if (sequence.kind == Utf8Sequence::Kind::invalid) {
      fail("{}: is not UTF-8 at byte {}: found {}", name, at, quote(text.substr(at, 4)));
    }
    at += sequence.bytes;
  }
}

std::string to_utf8(char32_t code_point) {
  const auto byte = [](char32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  const auto tail = [&](int shift) { return byte(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) return {byte(code_point)};
  if (code_point < 0x800) return {byte(0xC0 | code_point >> 6), tail(0)};
  if (code_point < 0x10000) return {byte(0xE0 | code_point >> 12), tail(6), tail(0)};
  return {byte(0xF0 | code_point >> 18), tail(12), tail(6), tail(0)};
}

}  // namespace ringtape
