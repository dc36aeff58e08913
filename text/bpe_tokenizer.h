#pragma once

#include <unordered_map>

#include "text/bpe_merges.h"
#include "text/tokenizer.h"

namespace ringtape {

/// GPT-2's tokenizer. A text is cut into pieces (text/gpt2_pieces.h). Each piece begins as single bytes; then
/// the two neighbours whose merge comes first in the list become one token (the leftmost pair if there are
/// several), until no pair of neighbours is in the list. The last token, "<|endoftext|>", separates
/// documents: id 50256 with GPT-2's merges.
///
/// The time is O(n log n) for every text: a piece of n bytes, such as a long line of one letter, is merged
/// with a heap.
class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(const BpeMerges& merges);

  /// "<|endoftext|>" in the text is ordinary text, so that no input can end a document.
  std::vector<std::int32_t> encode(std::string_view text) const override;
  /// The same, but each "<|endoftext|>" in the text becomes end_of_text().
  std::vector<std::int32_t> encode_documents(std::string_view text) const;

  std::optional<std::int32_t> end_of_text() const override {
    return static_cast<std::int32_t>(vocabulary_size() - 1);
  }

 private:
  class Encoding;

  /// The token that two neighbours make, or -1.
  std::int32_t merged(std::int32_t left, std::int32_t right) const;

  std::vector<std::int32_t> id_of_byte_;
  std::unordered_map<std::uint64_t, std::int32_t> merged_;  // by left << 32 | right
};

}  // namespace ringtape
