#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringtape {

/// What the tokens of a vocabulary are: a text's characters, the 256 bytes, or the pairs of BPE.
enum class TokenizerKind { characters, bytes, byte_pairs };

/// A vocabulary of tokens, which are strings of bytes, and a way to write a text as their ids, 0 to
/// vocabulary_size() - 1. Texts are UTF-8. All functions may be called by several threads at the same time.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The kind, the number of tokens and a checksum: "characters-65-0c1d2e3f". Tokenizers with the same name
  /// give every text the same ids, so a file of tokens and a trained model store the name.
  const std::string& name() const { return name_; }
  TokenizerKind kind() const { return kind_; }
  std::int64_t vocabulary_size() const { return static_cast<std::int64_t>(tokens_.size()); }
  /// The id that separates documents, for a tokenizer that has one.
  virtual std::optional<std::int32_t> end_of_text() const { return std::nullopt; }

  /// The ids of a text; decode() of them is the text again. Throws Error that names the byte's offset, from
  /// 0, for a text that is not UTF-8 and for a character that is not in the vocabulary.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// The bytes of one token: a token may be a part of a character. Throws Error for an id outside of the
  /// vocabulary.
  const std::string& token(std::int32_t id) const;
  /// The bytes of all tokens. For text that is printed while it is generated: text/streaming_decoder.h.
  std::string decode(std::span<const std::int32_t> ids) const;

 protected:
  /// `tokens`: the bytes of each id. `checksum` distinguishes tokenizers of one kind with the same number of
  /// tokens.
  Tokenizer(TokenizerKind kind, std::vector<std::string> tokens, std::uint32_t checksum);

 private:
  TokenizerKind kind_;
  std::vector<std::string> tokens_;
  std::string name_;
};

}  // namespace ringtape
