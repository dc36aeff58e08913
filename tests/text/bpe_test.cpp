#include <algorithm>

#include "io/checksum.h"
#include "io/json.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "text/gpt2.h"
#include "text/gpt2_pieces.h"
#include "text/tinyshakespeare.h"
#include "text/unicode_classes.h"

// The golden file is written by tests/long/tokenizer_against_tiktoken.py, which also compares every code
// point.
namespace ringtape::test {
namespace {

using Ids = std::vector<std::int32_t>;

const BpeTokenizer& gpt2() {
  static const std::shared_ptr<const BpeTokenizer> tokenizer = gpt2_tokenizer();
  return *tokenizer;
}

const Json& golden() {
  static const Json file = Json::parse(read_text(RINGTAPE_TEST_DATA "/gpt2_tokens.json"));
  return file;
}

std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_gpt2_piece(text, at);
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

/// The same without a heap: one pass for each merge, as in the published algorithm.
Ids merge_slowly(const BpeMerges& merges, std::string_view piece) {
  Ids ids;
  for (const char byte : piece) {
    const auto found = std::find(merges.tokens.begin(), merges.tokens.begin() + 256, std::string(1, byte));
    ids.push_back(static_cast<std::int32_t>(found - merges.tokens.begin()));
  }
  for (std::size_t merge = 0; merge < merges.pairs.size(); ++merge) {
    const auto [left, right] = merges.pairs[merge];
    Ids shorter;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool matches = ids[i] == left && i + 1 < ids.size() && ids[i + 1] == right;
      shorter.push_back(matches ? static_cast<std::int32_t>(256 + merge) : ids[i]);
      if (matches) ++i;
    }
    ids = std::move(shorter);
  }
  return ids;
}

TEST_CASE("character classes are those of tiktoken's regular expressions", "[text]") {
  for (const auto& [name, kind] : {std::pair("letter", CharacterClass::letter),
                                   {"number", CharacterClass::number},
                                   {"space", CharacterClass::space}}) {
    std::vector<std::uint32_t> members;
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
      if (class_of(c) == kind) members.push_back(c);
    }
    const Json& expected = golden().at("classes").at(name);
    INFO(name);
    CHECK(static_cast<std::int64_t>(members.size()) == expected.at("count").as_int64());
    CHECK(crc32(0, members.data(), 4 * members.size()) == expected.at("crc32").as_uint64());
  }
}

TEST_CASE("GPT-2's pieces", "[text]") {
  using Pieces = std::vector<std::string>;
  CHECK(pieces_of("Hello world") == Pieces{"Hello", " world"});
  CHECK(pieces_of("we'll've 's 'S") == Pieces{"we", "'ll", "'ve", " '", "s", " '", "S"});
  CHECK(pieces_of("a1 22 b") == Pieces{"a", "1", " 22", " b"});
  CHECK(pieces_of("a,?! b") == Pieces{"a", ",?!", " b"});
  CHECK(pieces_of("a   b") == Pieces{"a", "  ", " b"});
  CHECK(pieces_of("a \n\tb") == Pieces{"a", " \n", "\t", "b"});
  CHECK(pieces_of("a\u3000\u3000é") == Pieces{"a", "\u3000", "\u3000", "é"});
  CHECK(pieces_of("a  ") == Pieces{"a", "  "});
  CHECK(pieces_of(" ") == Pieces{" "});
}

TEST_CASE("GPT-2's tokens are tiktoken's", "[text]") {
  std::int64_t texts = 0;
  for (const Json& row : golden().at("texts").as_array()) {
    const std::string& text = row.at("text").as_string();
    Ids expected;
    for (const Json& id : row.at("ids").as_array()) {
      expected.push_back(static_cast<std::int32_t>(id.as_int64()));
    }
    INFO(text);
    CHECK(gpt2().encode(text) == expected);
    CHECK(gpt2().decode(expected) == text);
    ++texts;
  }
  CHECK(texts > 300);
  CHECK(gpt2().vocabulary_size() == 50257);
  CHECK(gpt2().encode(tinyshakespeare()).size() == 338'025);  // published for nanoGPT: 301,966 + 36,059
}

TEST_CASE("<|endoftext|> is a token only on request", "[text]") {
  CHECK(gpt2().end_of_text() == 50256);
  CHECK(gpt2().encode("<|endoftext|>") == Ids{27, 91, 437, 1659, 5239, 91, 29});
  CHECK(gpt2().encode_documents("<|endoftext|>") == Ids{50256});
  const Ids hello = gpt2().encode("hello"), world = gpt2().encode("world ");
  Ids expected = hello;
  expected.push_back(50256);
  expected.push_back(50256);
  expected.insert(expected.end(), world.begin(), world.end());
  CHECK(gpt2().encode_documents("hello<|endoftext|><|endoftext|>world ") == expected);
  CHECK(gpt2().decode(expected) == "hello<|endoftext|><|endoftext|>world ");
  CHECK(error_of([] { gpt2().encode_documents("<|endoftext|>a\xFF"); }) ==
        "text: is not UTF-8 at byte 14: found '\\xff'");
}

TEST_CASE("the heap gives the tokens of one pass for each merge", "[text]") {
  const std::string file = "#version: 0.2\na a\naa aa\naa b\nb a\n";
  const BpeMerges merges = parse_bpe_merges(file, "FILE", 4);
  const BpeTokenizer tokenizer(merges);
  std::int64_t wrong = 0;
  for (unsigned bits = 0; bits < 1u << 12; ++bits) {
    std::string piece;
    for (int i = 0; i < 12; ++i) piece += bits >> i & 1 ? 'a' : 'b';
    if (tokenizer.encode(piece) != merge_slowly(merges, piece)) ++wrong;
  }
  CHECK(wrong == 0);
}

// With a new comparison of all neighbours after each merge this would take hours, more than ctest allows.
TEST_CASE("a piece of a megabyte is encoded and decoded", "[text]") {
  for (const char letter : {'a', ' ', '.', '7'}) {
    const std::string text(kCheckBuild ? 100'000 : 1'000'000, letter);
    CHECK(gpt2().decode(gpt2().encode(text)) == text);
  }
}

TEST_CASE("a damaged file of merges is refused, naming the line", "[text]") {
  const auto error = [](std::string_view text, std::int64_t merges = 2) {
    return error_of([&] { parse_bpe_merges(text, "FILE", merges); });
  };
  CHECK(error("#version: 0.2\na b\nab c\n") == "");
  CHECK(error("") == "FILE: line 1 is '', expected #version");
  CHECK(error("a b\nab c\n") == "FILE: line 1 is 'a b', expected #version");
  CHECK(error("#version: 0.2\na b\nab") == "FILE: line 3 is cut: it ends without a newline");
  CHECK(error("#version: 0.2\na b\n") == "FILE: ends after line 2 with 1 merges, expected 2");
  CHECK(error("#version: 0.2\na b\nab\n") ==
        "FILE: line 3 is 'ab', expected two tokens with a blank between them");
  CHECK(error("#version: 0.2\na b\nab c d\n") ==
        "FILE: line 3 is 'ab c d', expected two tokens with a blank between them");
  CHECK(error("#version: 0.2\na b\nxy c\n") ==
        "FILE: line 3: 'xy' is neither a byte nor made by a line before");
  CHECK(error("#version: 0.2\na b\nab \n") == "FILE: line 3: '' is neither a byte nor made by a line before");
  CHECK(error("#version: 0.2\na b\na b\n") == "FILE: line 3 makes a token that was made before");
  CHECK(error("#version: 0.2\na b\nab \t\n") ==
        "FILE: line 3: '\\x09' has a character that stands for no byte");
  CHECK(error("#version: 0.2\r\na b\r\nab c\r\n").starts_with("FILE: line 2: "));

  const TemporaryFolder folder;
  const auto path = write_text(folder / "vocab.bpe", "#version: 0.2\na b\n");
  CHECK(error_of([&] { gpt2_tokenizer(path); }) ==
        path.string() + ": ends after line 2 with 1 merges, expected 50000");
  CHECK(error_of([&] { gpt2_tokenizer(folder / "none"); }).find("cannot open") != std::string::npos);
}

}  // namespace
}  // namespace ringtape::test
