#include "text/token_file.h"

#include <algorithm>
#include <bit>
#include <span>

#include "core/error.h"
#include "core/quote.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace ringtape {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are copied to and from the file as they are");

constexpr std::size_t kTokenHeaderBytes = 512;
constexpr const char* kTokenFormat = "ringtape tokens 1";
constexpr std::int64_t kMaxOf16Bits = 1 << 16;

std::size_t token_width(std::int64_t vocabulary_size) {
  return vocabulary_size <= kMaxOf16Bits ? 2 : 4;
}

const char* token_dtype(std::size_t width) {
  return width == 2 ? "U16" : "U32";
}

/// Calls `use` with all ids, piece by piece.
template <class Use>
void for_each_piece(const Tokens& tokens, const Use& use) {
  constexpr std::int64_t kPiece = 1 << 16;
  std::vector<std::int32_t> ids(kPiece);
  for (std::int64_t first = 0; first < tokens.size(); first += kPiece) {
    const std::int64_t count = std::min(kPiece, tokens.size() - first);
    tokens.read(first, count, ids.data());
    use(std::span<const std::int32_t>(ids.data(), static_cast<std::size_t>(count)));
  }
}

std::string token_header(const Tokens& tokens, std::uint32_t checksum) {
  std::string header = Json{{"format", kTokenFormat},
                            {"tokenizer", tokens.tokenizer()},
                            {"vocabulary_size", tokens.vocabulary_size()},
                            {"dtype", token_dtype(token_width(tokens.vocabulary_size()))},
                            {"count", tokens.size()},
                            {"crc32", fmt::format("{:08x}", checksum)}}
                           .dump();
  check(header.size() < kTokenHeaderBytes, "save_tokens: the tokenizer's name {} is too long for the header",
        quote(tokens.tokenizer()));
  header.resize(kTokenHeaderBytes, ' ');
  header.back() = '\n';
  return header;
}

}  // namespace

/// Reads the header of a mapped file.
class TokenFile {
 public:
  explicit TokenFile(const std::filesystem::path& path)
      : name_(path.string()), file_(std::make_shared<MappedFile>(path)) {}

  Tokens open() const {
    const std::span<const std::uint8_t> bytes = file_->bytes();
    check(bytes.size() >= kTokenHeaderBytes,
          "{}: is {} bytes long, expected at least {} for a file of tokens", name_, bytes.size(),
          kTokenHeaderBytes);
    const Json header =
        Json::parse({reinterpret_cast<const char*>(bytes.data()), kTokenHeaderBytes}, name_ + ": the header");
    try {
      return tokens_of(header, bytes);
    } catch (const JsonError& error) {
      fail("{}: the header: {}", name_, error.what());
    }
  }

 private:
  Tokens tokens_of(const Json& header, std::span<const std::uint8_t> bytes) const {
    const std::string& format = header.at("format").as_string();
    check(format == kTokenFormat, "{}: has the format {}, expected {}", name_, quote(format), kTokenFormat);
    const std::int64_t vocabulary_size = header.at("vocabulary_size").as_int64();
    check(vocabulary_size >= 1 && vocabulary_size <= std::int64_t{1} << 31,
          "{}: has a vocabulary of {} tokens, expected 1 to 2^31", name_, vocabulary_size);
    const std::size_t width = token_width(vocabulary_size);
    const std::string& dtype = header.at("dtype").as_string();
    check(dtype == token_dtype(width), "{}: has ids of dtype {}, expected {} for {} tokens", name_,
          quote(dtype), token_dtype(width), vocabulary_size);
    const std::uint64_t count = header.at("count").as_uint64();
    const std::uint64_t data_bytes = bytes.size() - kTokenHeaderBytes;
    check(data_bytes % width == 0 && count == data_bytes / width,
          "{}: has {} bytes of ids, expected {} ids of {} bytes", name_, data_bytes, count, width);
    return {std::shared_ptr<const void>(file_, bytes.data() + kTokenHeaderBytes), width,
            Tokens::About{.source = name_,
                          .tokenizer = header.at("tokenizer").as_string(),
                          .vocabulary_size = vocabulary_size,
                          .size = static_cast<std::int64_t>(count),
                          .checksum = crc_of(header.at("crc32").as_string())}};
  }

  std::uint32_t crc_of(const std::string& text) const {
    const bool is_hex = text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
    check(is_hex, "{}: has the CRC-32 {}, expected 8 hexadecimal digits", name_, quote(text));
    return static_cast<std::uint32_t>(std::stoul(text, nullptr, 16));
  }

  std::string name_;
  std::shared_ptr<const MappedFile> file_;
};

void save_tokens(const std::filesystem::path& path, const Tokens& tokens) {
  std::uint32_t checksum = 0;
  for_each_piece(tokens, [&](std::span<const std::int32_t> ids) {
    checksum = crc32(checksum, ids.data(), ids.size_bytes());
  });
  const std::string header = token_header(tokens, checksum);
  AtomicFile file(path);
  file.write(header.data(), header.size());
  for_each_piece(tokens, [&](std::span<const std::int32_t> ids) {
    if (token_width(tokens.vocabulary_size()) == 2) {
      const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
      file.write(narrow.data(), 2 * narrow.size());
    } else {
      file.write(ids.data(), ids.size_bytes());
    }
  });
  file.commit();
}

Tokens open_tokens(const std::filesystem::path& path) {
  return TokenFile(path).open();
}

}  // namespace ringtape
