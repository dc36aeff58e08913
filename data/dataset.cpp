#include "data/dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "io/checksum.h"

namespace ringtape {
namespace {

void gather_rows(const Tensor& table, std::span<const std::int64_t> indices, void* to) {
  const std::size_t row_bytes = table.bytes() / static_cast<std::size_t>(table.size(0));
  const auto* from = static_cast<const std::uint8_t*>(table.raw());
  auto* next = static_cast<std::uint8_t*>(to);
  for (std::int64_t index : indices) {
    std::memcpy(next, from + static_cast<std::size_t>(index) * row_bytes, row_bytes);
    next += row_bytes;
  }
}

Tensor rows(const Tensor& table, std::int64_t first, std::int64_t count) {
  const std::int64_t row_elements = table.elements() / table.size(0);
  return table.alias(table.shape().with(0, count), first * row_elements);
}

}  // namespace

std::uint32_t Dataset::checksum() const {
  constexpr std::int64_t kPiece = 1024;  // samples
  std::vector<std::uint8_t> feature_bytes(kPiece * features().bytes());
  std::vector<std::uint8_t> target_bytes(kPiece * target().bytes());
  std::uint32_t checksum = 0;
  for (std::int64_t first = 0; first < size(); first += kPiece) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(kPiece, size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    read(indices, feature_bytes.data(), target_bytes.data());
    checksum = crc32(checksum, feature_bytes.data(), indices.size() * features().bytes());
    checksum = crc32(checksum, target_bytes.data(), indices.size() * target().bytes());
  }
  return checksum;
}

TensorDataset::TensorDataset(Tensor features, Tensor targets)
    : features_(std::move(features)), targets_(std::move(targets)) {
  for (const Tensor* table : {&features_, &targets_}) {
    check(table->defined() && table->device().is_cpu() && table->dims() >= 1 && table->size(0) > 0,
          "TensorDataset: got {}, expected a CPU tensor with at least one row",
          table->defined() ? describe(*table) : "an undefined tensor");
  }
  check(features_.size(0) == targets_.size(0), "TensorDataset: {} rows of features and {} of targets",
        features_.size(0), targets_.size(0));
}

SampleLayout TensorDataset::features() const {
  return {features_.dtype(), features_.shape().without(0)};
}

SampleLayout TensorDataset::target() const {
  return {targets_.dtype(), targets_.shape().without(0)};
}

void TensorDataset::read(std::span<const std::int64_t> indices, void* features, void* targets) const {
  for (std::int64_t index : indices) {
    if (index < 0 || index >= size()) fail("TensorDataset: there is no sample {} among {}", index, size());
  }
  gather_rows(features_, indices, features);
  gather_rows(targets_, indices, targets);
}

TensorDataset TensorDataset::slice(std::int64_t first, std::int64_t count) const {
  check(first >= 0 && count > 0 && first <= size() - count,
        "slice: {} samples from {} on, expected a part of {}", count, first, size());
  return {rows(features_, first, count), rows(targets_, first, count)};
}

}  // namespace ringtape
