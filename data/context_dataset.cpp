#include "data/context_dataset.h"

#include <cstring>
#include <utility>

#include "core/divisors.h"
#include "core/error.h"

namespace ringtape {
namespace {

/// Copies the runs of each of `count` sequences of `length` values.
void copy_runs(const std::vector<std::uint8_t>& sequences, std::size_t count, std::size_t length,
               std::size_t value_bytes, const std::vector<TokenRun>& runs, void* to) {
  auto* next = static_cast<std::uint8_t*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    for (const TokenRun& run : runs) {
      const std::size_t bytes = static_cast<std::size_t>(run.count) * value_bytes;
      std::memcpy(next, sequences.data() + (i * length + static_cast<std::size_t>(run.first)) * value_bytes,
                  bytes);
      next += bytes;
    }
  }
}

}  // namespace

void check_sequences(const char* flag, const Dataset& samples) {
  const SampleLayout x = samples.features(), y = samples.target();
  check(x.shape.dims() == 1 && x.shape == y.shape,
        "{}: samples of features {} with targets {} are not sequences of tokens, expected a language model",
        flag, to_string(x.shape), to_string(y.shape));
}

ContextDataset::ContextDataset(std::shared_ptr<const Dataset> whole, const ContextPart& part)
    : whole_(std::move(whole)) {
  check_sequences("--context-parallel", *whole_);
  const std::int64_t length = whole_->features().shape[0], chunks = 2 * part.ranks;
  check(length % chunks == 0,
        "--context-parallel {}: sequences of {} tokens have no {} equal chunks, the nearest length that has "
        "is {}",
        part.ranks, length, chunks, nearest_multiple(length, chunks));
  runs_ = part.runs(length / part.ranks);
}

SampleLayout ContextDataset::features() const {
  SampleLayout layout = whole_->features();
  layout.shape = {runs_[0].count + runs_[1].count};
  return layout;
}

SampleLayout ContextDataset::target() const {
  return {whole_->target().dtype, features().shape};
}

void ContextDataset::read(std::span<const std::int64_t> indices, void* features, void* targets) const {
  const SampleLayout x = whole_->features(), y = whole_->target();
  std::vector<std::uint8_t> xs(indices.size() * x.bytes()), ys(indices.size() * y.bytes());
  whole_->read(indices, xs.data(), ys.data());
  const auto length = static_cast<std::size_t>(x.shape[0]);
  copy_runs(xs, indices.size(), length, size_of(x.dtype), runs_, features);
  copy_runs(ys, indices.size(), length, size_of(y.dtype), runs_, targets);
}

}  // namespace ringtape
