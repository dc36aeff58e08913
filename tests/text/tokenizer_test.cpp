#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "text/byte_tokenizer.h"
#include "text/character_tokenizer.h"
#include "text/streaming_decoder.h"
#include "text/tinyshakespeare.h"
#include "text/utf8.h"

namespace ringtape::test {
namespace {

using Ids = std::vector<std::int32_t>;

TEST_CASE("UTF-8: every code point is read as it was written", "[text]") {
  std::int64_t wrong = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const std::string bytes = to_utf8(c);
    const Utf8Sequence read = read_utf8(bytes + "x", 0);
    const bool is_surrogate = c >= 0xD800 && c <= 0xDFFF;
    const bool is_character = read.kind == Utf8Sequence::Kind::character;
    if (is_character == is_surrogate) ++wrong;
    if (is_character && (read.code_point != c || read.bytes != bytes.size())) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(to_utf8(0x20AC) == "\xE2\x82\xAC");
  CHECK(to_utf8(0x10348) == "\xF0\x90\x8D\x88");
}

TEST_CASE("UTF-8: invalid text is refused with the byte's offset", "[text]") {
  const auto error = [](std::string_view text) { return error_of([&] { check_utf8(text, "FILE"); }); };
  CHECK(error("") == "");
  CHECK(error("aä€𐍈") == "");
  CHECK(error("ab\xFFz") == "FILE: is not UTF-8 at byte 2: found '\\xffz'");
  CHECK(error("ab\xC0\x80") == "FILE: is not UTF-8 at byte 2: found '\\xc0\\x80'");  // overlong
  CHECK(error("\xE0\x9F\xBF").starts_with("FILE: is not UTF-8 at byte 0"));          // overlong
  CHECK(error("\xED\xA0\x80").starts_with("FILE: is not UTF-8 at byte 0"));          // a surrogate
  CHECK(error("\xF4\x90\x80\x80").starts_with("FILE: is not UTF-8 at byte 0"));      // above U+10FFFF
  CHECK(error("\xF0\x8F\xBF\xBF").starts_with("FILE: is not UTF-8 at byte 0"));      // overlong
  CHECK(error("a\x80").starts_with("FILE: is not UTF-8 at byte 1"));                 // a continuation byte
  CHECK(error("a\xE2\x82") == "FILE: ends inside of a UTF-8 character that begins at byte 1");
}

TEST_CASE("bytes: ids are the bytes", "[text]") {
  const ByteTokenizer tokenizer;
  CHECK(tokenizer.vocabulary_size() == 256);
  CHECK(tokenizer.encode("aä") == Ids{0x61, 0xC3, 0xA4});
  CHECK(tokenizer.decode(Ids{0x61, 0xC3, 0xA4}) == "aä");
  CHECK_FALSE(tokenizer.end_of_text());
  CHECK(error_of([&] { tokenizer.encode("a\xFF"); }) == "text: is not UTF-8 at byte 1: found '\\xff'");
  CHECK(error_of([&] {
          tokenizer.decode(Ids{1, 256});
        }).ends_with("there is no token 256, expected 0 to 255"));
  CHECK_THROWS_AS(tokenizer.token(-1), Error);
}

TEST_CASE("characters: ids follow the order of the code points", "[text]") {
  const CharacterTokenizer tokenizer("b\na€ba");
  CHECK(tokenizer.vocabulary_size() == 4);
  CHECK(tokenizer.encode("ab\n€") == Ids{1, 2, 0, 3});
  CHECK(tokenizer.decode(Ids{3, 0, 2}) == "€\nb");
  CHECK(tokenizer.characters() == "\nab€");
  CHECK(CharacterTokenizer(tokenizer.characters()).name() == tokenizer.name());
  CHECK(CharacterTokenizer("abcd").name() != CharacterTokenizer("abce").name());
  CHECK(error_of([&] { tokenizer.encode("aaä"); }) ==
        "text: the character '\\xc3\\xa4' (U+00E4) at byte 2 is none of the tokenizer's 4");
  CHECK(error_of([] { CharacterTokenizer(""); }).find("the text is empty") != std::string::npos);
  CHECK(error_of([] { CharacterTokenizer("a\xC3"); }) ==
        "text: ends inside of a UTF-8 character that begins at byte 1");
}

// The ids of nanoGPT's data/shakespeare_char/prepare.py: sorted(set(text)).
TEST_CASE("characters: tinyshakespeare has nanoGPT's 65", "[text]") {
  const std::string_view text = tinyshakespeare();
  CHECK(text.size() == 1'115'394);
  const CharacterTokenizer tokenizer(text);
  CHECK(tokenizer.characters() == "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
  CHECK(tokenizer.vocabulary_size() == 65);
  CHECK(tokenizer.encode("First Citizen") == Ids{18, 47, 56, 57, 58, 1, 15, 47, 58, 47, 64, 43, 52});
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}

TEST_CASE("a streaming decoder emits whole characters", "[text]") {
  const ByteTokenizer tokenizer;
  StreamingDecoder decoder(tokenizer);
  const std::string text = "aä€𐍈z";
  std::vector<std::string> pieces;
  for (const std::int32_t id : tokenizer.encode(text)) {
    if (const std::string piece = decoder.push(id); !piece.empty()) pieces.push_back(piece);
  }
  CHECK(pieces == std::vector<std::string>{"a", "ä", "€", "𐍈", "z"});
  CHECK(decoder.finish() == "");
}

// The example of the Unicode standard, table 3-8 (conversion of ill-formed text).
TEST_CASE("a streaming decoder replaces each invalid sequence by one U+FFFD", "[text]") {
  const ByteTokenizer tokenizer;
  StreamingDecoder decoder(tokenizer);
  std::string text;
  for (const std::int32_t byte :
       {0x61, 0xF1, 0x80, 0x80, 0xE1, 0x80, 0xC2, 0x62, 0x80, 0x63, 0x80, 0xBF, 0x64}) {
    text += decoder.push(byte);
  }
  CHECK(text == "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  CHECK(decoder.push(0xE2) == "");
  CHECK(decoder.finish() == "\uFFFD");
  CHECK(decoder.finish() == "");
}

}  // namespace
}  // namespace ringtape::test
