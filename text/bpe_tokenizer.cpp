#include "text/bpe_tokenizer.h"

#include <functional>
#include <queue>

#include "text/gpt2_pieces.h"
#include "text/utf8.h"

namespace ringtape {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::int32_t kNoToken = -1;

std::vector<std::string> with_end_of_text(std::vector<std::string> tokens) {
  tokens.emplace_back(kEndOfText);
  return tokens;
}

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

/// The tokens of a text so far, and the pieces whose tokens are known.
class BpeTokenizer::Encoding {
 public:
  explicit Encoding(const BpeTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  std::vector<std::int32_t> ids;

  /// Appends the tokens of `text`, which must live as long as this object.
  void append(std::string_view text) {
    check_utf8(text, "text");
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = end_of_gpt2_piece(text, at);
      append_piece(text.substr(at, end - at));
      at = end;
    }
  }

 private:
  /// Where the tokens of a piece stand in `ids`.
  struct Place {
    std::size_t first, count;
  };

  // Most pieces have occurred before: their tokens are copied from there.
  void append_piece(std::string_view piece) {
    constexpr std::size_t kMaxKnown = 1 << 20;  // pieces, to limit the memory
    const auto known = known_.find(piece);
    if (known != known_.end()) {
      for (std::size_t i = 0; i < known->second.count; ++i) ids.push_back(ids[known->second.first + i]);
      return;
    }
    const std::size_t first = ids.size();
    merge(piece);
    if (known_.size() < kMaxKnown) known_.emplace(piece, Place{first, ids.size() - first});
  }

  // The tokens of a piece are a doubly linked list; a token's place is that of its first byte.
  void merge(std::string_view piece) {
    const std::size_t size = piece.size();
    nodes_.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      const std::int32_t id = tokenizer_.id_of_byte_[static_cast<unsigned char>(piece[i])];
      nodes_[i] = {id, kNoToken, i - 1, i + 1};
    }
    for (std::size_t i = 0; i + 1 < size; ++i) offer(i, size);
    while (!candidates_.empty()) {
      const auto [made, place] = candidates_.top();
      candidates_.pop();
      Node& node = nodes_[place];
      if (node.merged_with_next != made) continue;  // a neighbour has changed since
      Node& next = nodes_[node.next];
      next.merged_with_next = kNoToken;  // is no longer there
      node.id = made;
      node.next = next.next;
      if (node.next < size) nodes_[node.next].previous = place;
      offer(place, size);
      if (place > 0) offer(node.previous, size);
    }
    for (std::size_t i = 0; i < size; i = nodes_[i].next) ids.push_back(nodes_[i].id);
  }

  /// Finds the token that the one at `place` and the next one make together.
  void offer(std::size_t place, std::size_t size) {
    Node& node = nodes_[place];
    node.merged_with_next = node.next < size ? tokenizer_.merged(node.id, nodes_[node.next].id) : kNoToken;
    if (node.merged_with_next != kNoToken) candidates_.push({node.merged_with_next, place});
  }

  struct Node {
    std::int32_t id;
    std::int32_t merged_with_next;  // the token that this one and the next would make, or none
    std::size_t previous, next;
  };
  /// A merge and its place: the earliest in the list of merges first, of equal ones the leftmost.
  using Candidate = std::pair<std::int32_t, std::size_t>;

  const BpeTokenizer& tokenizer_;
  std::unordered_map<std::string_view, Place> known_;
  std::vector<Node> nodes_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

BpeTokenizer::BpeTokenizer(const BpeMerges& merges)
    : Tokenizer(TokenizerKind::byte_pairs, with_end_of_text(merges.tokens), merges.checksum),
      id_of_byte_(256) {
  for (std::int32_t id = 0; id < 256; ++id) {
    const std::string& byte = token(id);
    id_of_byte_[static_cast<unsigned char>(byte[0])] = id;
  }
  merged_.reserve(merges.pairs.size());
  std::int32_t made = 256;
  for (const auto& [left, right] : merges.pairs) merged_.emplace(key_of(left, right), made++);
}

std::int32_t BpeTokenizer::merged(std::int32_t left, std::int32_t right) const {
  const auto found = merged_.find(key_of(left, right));
  return found == merged_.end() ? kNoToken : found->second;
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  Encoding encoding(*this);
  encoding.append(text);
  return std::move(encoding.ids);
}

std::vector<std::int32_t> BpeTokenizer::encode_documents(std::string_view text) const {
  Encoding encoding(*this);
  check_utf8(text, "text");
  while (true) {
    const std::size_t end = text.find(kEndOfText);
    encoding.append(text.substr(0, end));
    if (end == std::string_view::npos) return std::move(encoding.ids);
    encoding.ids.push_back(*end_of_text());
    text.remove_prefix(end + kEndOfText.size());
  }
}

}  // namespace ringtape
