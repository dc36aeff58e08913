#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace ringtape {

/// A sequence of token ids, in memory or in a mapped file (text/token_file.h). It is immutable, and copies
/// share the ids.
class Tokens {
 public:
  /// The ids that this tokenizer gave a text. Throws Error for an id outside of its vocabulary.
  Tokens(std::vector<std::int32_t> ids, const Tokenizer& tokenizer);

  std::int64_t size() const { return size_; }
  /// "memory", or the file, for error texts.
  const std::string& source() const { return about_->source; }
  /// Tokenizer::name() of the tokenizer.
  const std::string& tokenizer() const { return about_->tokenizer; }
  std::int64_t vocabulary_size() const { return about_->vocabulary_size; }
  /// Throws Error unless these are the ids of this tokenizer.
  void expect(const Tokenizer& tokenizer) const;

  /// Copies the ids `first` to `first + count - 1`. Throws Error for a range outside of the sequence, and for
  /// an id outside of the vocabulary, which a damaged file can have.
  void read(std::int64_t first, std::int64_t count, std::int32_t* to) const;

  /// The tokens `first` to `first + count - 1`, such as a training and a validation split.
  Tokens slice(std::int64_t first, std::int64_t count) const;

  /// A CRC-32 of the ids as 32-bit numbers; for a slice, of its range and the CRC-32 of the whole sequence.
  std::uint32_t checksum() const;

 private:
  friend class TokenFile;

  struct About {
    std::string source;
    std::string tokenizer;
    std::int64_t vocabulary_size;
    std::int64_t size;       // of the whole sequence
    std::uint32_t checksum;  // of the whole sequence
  };
  Tokens(std::shared_ptr<const void> data, std::size_t width, About about);

  std::shared_ptr<const void> data_;  // ids of `width_` bytes, little-endian
  std::size_t width_;                 // 2 or 4
  std::shared_ptr<const About> about_;
  std::int64_t first_ = 0;
  std::int64_t size_;
};

}  // namespace ringtape
