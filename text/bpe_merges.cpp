#include "text/bpe_merges.h"

#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "core/quote.h"
#include "io/checksum.h"
#include "io/file.h"
#include "text/utf8.h"

namespace ringtape {
namespace {

/// The bytes, and the characters that stand for them in the file, in the order of their ids.
class BpeAlphabet {
 public:
  BpeAlphabet() {
    for (int byte = 0; byte < 256; ++byte) {
      if (is_printable(byte)) add(byte, static_cast<char32_t>(byte));
    }
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      if (!is_printable(byte)) add(byte, next++);
    }
  }

  /// The single bytes in the order of their ids.
  const std::vector<std::string>& bytes() const { return bytes_; }

  /// The bytes that a token in the file stands for; nullopt if one of its characters stands for no byte.
  std::optional<std::string> bytes_of(std::string_view written) const {
    std::string bytes;
    for (std::size_t at = 0; at < written.size();) {
      const Utf8Sequence character = read_utf8(written, at);
      const auto found = byte_of_.find(character.code_point);
      if (character.kind != Utf8Sequence::Kind::character || found == byte_of_.end()) return std::nullopt;
      bytes += found->second;
      at += character.bytes;
    }
    return bytes;
  }

 private:
  // U+00AD, the soft hyphen, is invisible.
  static bool is_printable(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
  }
  void add(int byte, char32_t character) {
    bytes_.emplace_back(1, static_cast<char>(byte));
    byte_of_[character] = static_cast<char>(byte);
  }

  std::vector<std::string> bytes_;
  std::unordered_map<char32_t, char> byte_of_;
};

class BpeMergesReader {
 public:
  explicit BpeMergesReader(const std::string& name) : name_(name) {
    for (const std::string& byte : alphabet_.bytes()) add(byte);
  }

  BpeMerges read(std::string_view text, std::int64_t expected) {
    check(text.starts_with("#version"), "{}: line 1 is {}, expected #version", name_,
          quote(text.substr(0, text.find('\n'))));
    result_.checksum = crc32(0, text.data(), text.size());
    for (line_ = 1; !text.empty(); ++line_) {
      const std::size_t end = text.find('\n');
      if (end == std::string_view::npos) fail("{}: line {} is cut: it ends without a newline", name_, line_);
      if (line_ > 1) read_merge(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    const auto found = static_cast<std::int64_t>(result_.pairs.size());
    check(found == expected, "{}: ends after line {} with {} merges, expected {}", name_, line_ - 1, found,
          expected);
    return std::move(result_);
  }

 private:
  void read_merge(std::string_view line) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
      fail("{}: line {} is {}, expected two tokens with a blank between them", name_, line_, quote(line));
    }
    const std::int32_t left = id_of(line.substr(0, blank)), right = id_of(line.substr(blank + 1));
    result_.pairs.emplace_back(left, right);
    add(result_.tokens[static_cast<std::size_t>(left)] + result_.tokens[static_cast<std::size_t>(right)]);
  }

  std::int32_t id_of(std::string_view written) const {
    const std::optional<std::string> bytes = alphabet_.bytes_of(written);
    if (!bytes) fail("{}: line {}: {} has a character that stands for no byte", name_, line_, quote(written));
    const auto found = ids_.find(*bytes);
    if (found == ids_.end()) {
      fail("{}: line {}: {} is neither a byte nor made by a line before", name_, line_, quote(written));
    }
    return found->second;
  }

  void add(std::string token) {
    const auto id = static_cast<std::int32_t>(result_.tokens.size());
    if (!ids_.emplace(token, id).second) fail("{}: line {} makes a token that was made before", name_, line_);
    result_.tokens.push_back(std::move(token));
  }

  const std::string& name_;
  std::int64_t line_ = 0;
  BpeAlphabet alphabet_;
  std::unordered_map<std::string, std::int32_t> ids_;
  BpeMerges result_{};
};

}  // namespace

BpeMerges parse_bpe_merges(std::string_view text, const std::string& name, std::int64_t merges) {
  return BpeMergesReader(name).read(text, merges);
}

BpeMerges read_bpe_merges(const std::filesystem::path& path, std::int64_t merges) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  return parse_bpe_merges({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string(), merges);
}

}  // namespace ringtape
