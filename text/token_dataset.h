#pragma once

#include "data/dataset.h"
#include "text/tokens.h"

/// Samples of a language model: `length` tokens, i32 [length], and for each of them the token that follows it
/// as the target, i32 [length]. Targets equal to kIgnoredTarget do not count in the loss, which is the mean
/// over the others (cross_entropy()'s ignore_index).
namespace ringtape {

constexpr std::int32_t kIgnoredTarget = -100;

/// Windows of a sequence of tokens: x = tokens[s .. s + length), y = tokens[s + 1 .. s + 1 + length) for a
/// window that starts at s.
///
///   training    Windows::all with a ReplacementSampler (data/sampler.h): windows at random places
///   evaluation  Windows::consecutive in order: each token but the first is a target exactly once
class TokenDataset : public Dataset {
 public:
  enum class Windows {
    all,          ///< sample i starts at i: size - length samples
    consecutive,  ///< sample i starts at i * length; the last one may be short and is padded with the token 0
                  ///< and ignored targets
  };

  /// Throws Error for a length below 1, and for fewer tokens than one window needs: length + 1.
  TokenDataset(Tokens tokens, std::int64_t length, Windows windows);

  std::int64_t size() const override { return size_; }
  SampleLayout features() const override { return {DType::i32, {length_}}; }
  SampleLayout target() const override { return {DType::i32, {length_}}; }
  void read(std::span<const std::int64_t> indices, void* features, void* targets) const override;
  /// The number of a window's tokens, if no window is padded.
  std::optional<std::int64_t> targets_per_sample() const override;
  /// Computed from the tokens' checksum() and the windows' sizes, without reading the tokens.
  std::uint32_t checksum() const override;

  const Tokens& tokens() const { return tokens_; }

 private:
  Tokens tokens_;
  std::int64_t length_;
  std::int64_t stride_;
  std::int64_t size_;
};

/// Sequences of different lengths, each a sample: they are padded at the end with the token 0 and ignored
/// targets. With causal attention the padding changes nothing before it.
class SequenceDataset : public Dataset {
 public:
  /// Throws Error without sequences, for a sequence of fewer than 2 or more than `length` + 1 tokens, for a
  /// `length` below 1, and for an id outside of the vocabulary.
  SequenceDataset(std::vector<std::vector<std::int32_t>> sequences, std::int64_t vocabulary_size,
                  std::int64_t length);

  std::int64_t size() const override { return static_cast<std::int64_t>(sequences_.size()); }
  SampleLayout features() const override { return {DType::i32, {length_}}; }
  SampleLayout target() const override { return {DType::i32, {length_}}; }
  void read(std::span<const std::int64_t> indices, void* features, void* targets) const override;

 private:
  std::vector<std::vector<std::int32_t>> sequences_;
  std::int64_t length_;
};

}  // namespace ringtape
