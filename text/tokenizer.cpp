#include "text/tokenizer.h"

#include <utility>

#include "core/error.h"

namespace ringtape {
namespace {

constexpr const char* kKindNames[] = {"characters", "bytes", "bpe"};

}  // namespace

Tokenizer::Tokenizer(TokenizerKind kind, std::vector<std::string> tokens, std::uint32_t checksum)
    : kind_(kind),
      tokens_(std::move(tokens)),
      name_(fmt::format("{}-{}-{:08x}", kKindNames[static_cast<std::size_t>(kind)], tokens_.size(),
                        checksum)) {}

const std::string& Tokenizer::token(std::int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) {
    fail("{}: there is no token {}, expected 0 to {}", name_, id, vocabulary_size() - 1);
  }
  return tokens_[static_cast<std::size_t>(id)];
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += token(id);
  return text;
}

}  // namespace ringtape
