#include "text/tokens.h"

#include <array>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "io/checksum.h"

namespace ringtape {
namespace {

std::shared_ptr<const void> share(std::vector<std::int32_t> ids) {
  auto owner = std::make_shared<const std::vector<std::int32_t>>(std::move(ids));
  return {owner, owner->data()};
}

/// Copies ids up to the first that is outside of the vocabulary, and returns its place, or `count`.
template <class Id>
std::int64_t copy_ids(const std::uint8_t* from, std::int64_t count, std::int64_t vocabulary_size,
                      std::int32_t* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    Id id;
    std::memcpy(&id, from + static_cast<std::size_t>(i) * sizeof id, sizeof id);
    to[i] = static_cast<std::int32_t>(id);
    if (id >= vocabulary_size) return i;
  }
  return count;
}

}  // namespace

Tokens::Tokens(std::shared_ptr<const void> data, std::size_t width, About about)
    : data_(std::move(data)),
      width_(width),
      about_(std::make_shared<const About>(std::move(about))),
      size_(about_->size) {}

Tokens::Tokens(std::vector<std::int32_t> ids, const Tokenizer& tokenizer)
    : width_(sizeof(std::int32_t)), size_(static_cast<std::int64_t>(ids.size())) {
  for (const std::int32_t id : ids) (void)tokenizer.token(id);
  about_ = std::make_shared<const About>(About{.source = "memory",
                                               .tokenizer = tokenizer.name(),
                                               .vocabulary_size = tokenizer.vocabulary_size(),
                                               .size = size_,
                                               .checksum = crc32(0, ids.data(), 4 * ids.size())});
  data_ = share(std::move(ids));
}

void Tokens::expect(const Tokenizer& expected) const {
  check(tokenizer() == expected.name(), "{}: holds tokens of the tokenizer {}, expected those of {}",
        source(), tokenizer(), expected.name());
}

void Tokens::read(std::int64_t first, std::int64_t count, std::int32_t* to) const {
  if (first < 0 || count < 0 || count > size_ || first > size_ - count) {
    fail("{}: {} tokens from {} on, expected a part of {}", source(), count, first, size_);
  }
  const auto* const from =
      static_cast<const std::uint8_t*>(data_.get()) + static_cast<std::size_t>(first_ + first) * width_;
  const std::int64_t wrong = width_ == 2 ? copy_ids<std::uint16_t>(from, count, vocabulary_size(), to)
                                         : copy_ids<std::uint32_t>(from, count, vocabulary_size(), to);
  if (wrong < count) {
    fail("{}: token {} is {}, expected 0 to {}", source(), first_ + first + wrong, to[wrong],
         vocabulary_size() - 1);
  }
}

Tokens Tokens::slice(std::int64_t first, std::int64_t count) const {
  check(first >= 0 && count >= 0 && count <= size_ && first <= size_ - count,
        "{}: a slice of {} tokens from {} on, expected a part of {}", source(), count, first, size_);
  Tokens part = *this;
  part.first_ += first;
  part.size_ = count;
  return part;
}

std::uint32_t Tokens::checksum() const {
  if (size_ == about_->size) return about_->checksum;
  const std::array<std::int64_t, 2> range = {first_, size_};
  return crc32(about_->checksum, range.data(), sizeof range);
}

}  // namespace ringtape
