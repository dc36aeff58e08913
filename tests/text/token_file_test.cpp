#include "text/token_file.h"

#include <cstring>
#include <numeric>

#include "core/error.h"
#include "io/checksum.h"
#include "io/json.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "text/byte_tokenizer.h"

namespace ringtape::test {
namespace {

using Ids = std::vector<std::int32_t>;

/// A tokenizer with any number of tokens.
class WideTokenizer : public Tokenizer {
 public:
  explicit WideTokenizer(std::size_t size)
      : Tokenizer(TokenizerKind::bytes, std::vector<std::string>(size), 0) {}
  std::vector<std::int32_t> encode(std::string_view) const override { return {}; }
};

Ids all_of(const Tokens& tokens) {
  Ids ids(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, tokens.size(), ids.data());
  return ids;
}

TEST_CASE("a file of tokens is read as it was written", "[text]") {
  const TemporaryFolder folder;
  const ByteTokenizer bytes;
  const Tokens tokens(bytes.encode("to be or not to be"), bytes);
  save_tokens(folder / "bytes", tokens);
  CHECK(folder.names() == std::vector<std::string>{"bytes"});
  const Tokens opened = open_tokens(folder / "bytes");
  CHECK(all_of(opened) == bytes.encode("to be or not to be"));
  CHECK(opened.vocabulary_size() == 256);
  CHECK_NOTHROW(opened.expect(bytes));
  CHECK(bytes.decode(all_of(opened.slice(6, 2))) == "or");

  // The layout that the header's comment describes.
  const std::string file = read_text(folder / "bytes");
  REQUIRE(file.size() == 512 + 2 * 18);
  CHECK(file[511] == '\n');
  CHECK(file.find('\n') == 511);
  CHECK(file.substr(512, 6) == std::string("t\0o\0 \0", 6));
  const Json header = Json::parse(file.substr(0, 512));
  CHECK(header.at("tokenizer").as_string() == bytes.name());
  CHECK(header.at("dtype").as_string() == "U16");
  CHECK(header.at("count").as_int64() == 18);
  const Ids ids = bytes.encode("to be or not to be");
  CHECK(header.at("crc32").as_string() == fmt::format("{:08x}", crc32(0, ids.data(), 4 * ids.size())));
  CHECK(opened.checksum() == tokens.checksum());

  save_tokens(folder / "copy", opened);
  CHECK(read_text(folder / "copy") == file);
  save_tokens(folder / "empty", Tokens(Ids{}, bytes));
  CHECK(open_tokens(folder / "empty").size() == 0);
}

TEST_CASE("ids have 16 bits up to 65,536 tokens, and 32 beyond", "[text]") {
  const TemporaryFolder folder;
  for (const auto& [vocabulary, width] : {std::pair(65'536, 2), {65'537, 4}}) {
    const WideTokenizer tokenizer(static_cast<std::size_t>(vocabulary));
    Ids ids(200'000);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i) % vocabulary;
    ids.back() = vocabulary - 1;
    save_tokens(folder / "x", Tokens(ids, tokenizer));
    CHECK(std::filesystem::file_size(folder / "x") == 512 + 200'000 * static_cast<std::uintmax_t>(width));
    CHECK(all_of(open_tokens(folder / "x")) == ids);
  }
}

TEST_CASE("a damaged file of tokens is refused", "[text]") {
  const TemporaryFolder folder;
  const ByteTokenizer bytes;
  save_tokens(folder / "x", Tokens(bytes.encode("abc"), bytes));
  const std::string whole = read_text(folder / "x"), name = (folder / "x").string();
  const auto error = [&](const std::string& file) {
    write_text(folder / "x", file);
    return error_of([&] { open_tokens(folder / "x"); });
  };
  /// The file with another value for one member of its header.
  const auto with = [&](const std::string& member, Json value) {
    Json header = Json::parse(whole.substr(0, 512));
    header[member] = std::move(value);
    std::string text = header.dump();
    text.resize(512, ' ');
    return text + whole.substr(512);
  };
  CHECK(error(whole) == "");
  CHECK(error("") == name + ": is 0 bytes long, expected at least 512 for a file of tokens");
  CHECK(error(whole.substr(0, 300)) ==
        name + ": is 300 bytes long, expected at least 512 for a file of tokens");
  CHECK(error(whole.substr(0, 517)) == name + ": has 5 bytes of ids, expected 3 ids of 2 bytes");
  CHECK(error(whole.substr(0, 516)) == name + ": has 4 bytes of ids, expected 3 ids of 2 bytes");
  CHECK(error(whole + "ab") == name + ": has 8 bytes of ids, expected 3 ids of 2 bytes");
  CHECK(error(std::string(600, 'x')).starts_with(name + ": the header: is not valid JSON"));
  CHECK(error(with("format", "other")) == name + ": has the format 'other', expected ringtape tokens 1");
  CHECK(error(with("dtype", "U32")) == name + ": has ids of dtype 'U32', expected U16 for 256 tokens");
  CHECK(error(with("vocabulary_size", 0)) == name + ": has a vocabulary of 0 tokens, expected 1 to 2^31");
  CHECK(error(with("vocabulary_size", -1)) == name + ": has a vocabulary of -1 tokens, expected 1 to 2^31");
  CHECK(error(with("count", std::uint64_t{1} << 63)).find("expected 9223372036854775808 ids of 2 bytes") !=
        std::string::npos);
  CHECK(error(with("count", "three")).starts_with(name + ": the header: JSON: expected a whole number"));
  CHECK(error(with("crc32", "xyz")) == name + ": has the CRC-32 'xyz', expected 8 hexadecimal digits");
  CHECK(error("{}" + std::string(510, ' ')) == name + ": the header: JSON: an object has no 'format'");
  CHECK(error_of([&] { open_tokens(folder / "none"); }) ==
        (folder / "none").string() + ": cannot open: No such file or directory");

  // An id outside of the vocabulary is found when it is read.
  std::string file = whole;
  file[512 + 3] = 1;
  write_text(folder / "x", file);
  const Tokens tokens = open_tokens(folder / "x");
  CHECK(error_of([&] { all_of(tokens.slice(1, 2)); }) == name + ": token 1 is 354, expected 0 to 255");
  CHECK(all_of(tokens.slice(0, 1)) == Ids{'a'});
  CHECK(error_of([&] { save_tokens(folder / "y", tokens); }) == name + ": token 1 is 354, expected 0 to 255");
  CHECK(folder.names() == std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace ringtape::test
