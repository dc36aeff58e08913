#include "text/token_dataset.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/numbers.h"
#include "io/checksum.h"

namespace ringtape {
namespace {

/// Writes a sample: all of `tokens` but the last are features, all but the first are targets.
void write_sample(std::span<const std::int32_t> tokens, std::int64_t length, std::int32_t* features,
                  std::int32_t* targets) {
  const auto known = static_cast<std::int64_t>(tokens.size()) - 1;
  std::copy_n(tokens.begin(), known, features);
  std::copy_n(tokens.begin() + 1, known, targets);
  std::fill(features + known, features + length, 0);
  std::fill(targets + known, targets + length, kIgnoredTarget);
}

void check_index(const char* dataset, std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) fail("{}: there is no sample {} among {}", dataset, index, size);
}

}  // namespace

TokenDataset::TokenDataset(Tokens tokens, std::int64_t length, Windows windows)
    : tokens_(std::move(tokens)), length_(length), stride_(windows == Windows::all ? 1 : length) {
  check(length >= 1, "TokenDataset: windows of {} tokens, expected at least 1", length);
  check(tokens_.size() > length,
        "{}: has {} tokens, expected more than {} for a window of {} and the token that follows it",
        tokens_.source(), tokens_.size(), length, length);
  // A first window, and as many more as it takes to reach the last target.
  size_ = 1 + ceil_div(tokens_.size() - 1 - length_, stride_);
}

void TokenDataset::read(std::span<const std::int64_t> indices, void* features, void* targets) const {
  auto* x = static_cast<std::int32_t*>(features);
  auto* y = static_cast<std::int32_t*>(targets);
  std::vector<std::int32_t> window(static_cast<std::size_t>(length_) + 1);
  for (const std::int64_t index : indices) {
    check_index("TokenDataset", index, size_);
    const std::int64_t first = index * stride_;
    const std::int64_t count = std::min(length_ + 1, tokens_.size() - first);
    tokens_.read(first, count, window.data());
    write_sample({window.data(), static_cast<std::size_t>(count)}, length_, x, y);
    x += length_;
    y += length_;
  }
}

std::optional<std::int64_t> TokenDataset::targets_per_sample() const {
  const bool last_is_full = (size_ - 1) * stride_ + length_ < tokens_.size();
  return last_is_full ? std::optional(length_) : std::nullopt;
}

std::uint32_t TokenDataset::checksum() const {
  const std::array<std::int64_t, 2> windows = {length_, stride_};
  return crc32(tokens_.checksum(), windows.data(), sizeof windows);
}

SequenceDataset::SequenceDataset(std::vector<std::vector<std::int32_t>> sequences,
                                 std::int64_t vocabulary_size, std::int64_t length)
    : sequences_(std::move(sequences)), length_(length) {
  check(!sequences_.empty(), "SequenceDataset: found no sequences, expected at least one");
  check(length >= 1, "SequenceDataset: samples of {} tokens, expected at least 1", length);
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const auto count = static_cast<std::int64_t>(sequences_[i].size());
    if (count < 2 || count - 1 > length_) {
      fail("SequenceDataset: sequence {} has {}, expected 2 or more tokens, and at most {} before the last",
           i, counted(count, "token"), length_);
    }
    for (const std::int32_t id : sequences_[i]) {
      if (id < 0 || id >= vocabulary_size) {
        fail("SequenceDataset: sequence {} has the token {}, expected 0 to {}", i, id, vocabulary_size - 1);
      }
    }
  }
}

void SequenceDataset::read(std::span<const std::int64_t> indices, void* features, void* targets) const {
  auto* x = static_cast<std::int32_t*>(features);
  auto* y = static_cast<std::int32_t*>(targets);
  for (const std::int64_t index : indices) {
    check_index("SequenceDataset", index, size());
    write_sample(sequences_[static_cast<std::size_t>(index)], length_, x, y);
    x += length_;
    y += length_;
  }
}

}  // namespace ringtape
