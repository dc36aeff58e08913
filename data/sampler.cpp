#include "data/sampler.h"

#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace ringtape {
namespace {

constexpr std::uint64_t kShuffleStream = std::uint64_t{1} << 63;
constexpr std::uint64_t kReplacementStream = std::uint64_t{3} << 62;

// 64 random bits: number `i` of an epoch's part of a stream.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t i, std::uint64_t stream, std::int64_t epoch) {
  const on_cpu::Philox4 random = on_cpu::philox4x32_10(seed, i, stream + static_cast<std::uint64_t>(epoch));
  return static_cast<std::uint64_t>(random.y) << 32 | random.x;
}

// floor(a b / 2^64)
std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> 64);
}

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t samples) : samples_(samples) {
  check(samples >= 0, "SequentialSampler: {} samples, expected at least 0", samples);
}

std::vector<std::int64_t> SequentialSampler::order(std::int64_t) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(samples_));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

RandomSampler::RandomSampler(std::int64_t samples, std::uint64_t seed) : samples_(samples), seed_(seed) {
  check(samples >= 0, "RandomSampler: {} samples, expected at least 0", samples);
}

std::vector<std::int64_t> RandomSampler::order(std::int64_t epoch) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(samples_));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  for (std::uint64_t i = indices.size(); i-- > 1;) {
    std::swap(indices[i], indices[multiply_high(random_bits(seed_, i, kShuffleStream, epoch), i + 1)]);
  }
  return indices;
}

ReplacementSampler::ReplacementSampler(std::int64_t samples, std::int64_t draws, std::uint64_t seed)
    : samples_(samples), draws_(draws), seed_(seed) {
  check(samples > 0 && draws > 0 && draws <= kMaxDraws,
        "ReplacementSampler: {} draws from {} samples, expected at least 1 of each, and at most {} draws",
        draws, samples, kMaxDraws);
}

std::vector<std::int64_t> ReplacementSampler::order(std::int64_t epoch) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(draws_));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint64_t random = random_bits(seed_, i, kReplacementStream, epoch);
    indices[i] = static_cast<std::int64_t>(multiply_high(random, static_cast<std::uint64_t>(samples_)));
  }
  return indices;
}

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> all, int rank, int world_size)
    : all_(std::move(all)), rank_(rank), world_size_(world_size) {
  check(all_ != nullptr, "DistributedSampler: the sampler of all ranks is null");
  check(rank >= 0 && rank < world_size,
        "DistributedSampler: rank {} of {}, expected a rank from 0 on below it", rank, world_size);
}

std::int64_t DistributedSampler::own_of(std::int64_t samples) const {
  return (samples + world_size_ - 1 - rank_) / world_size_;
}

std::vector<std::int64_t> DistributedSampler::order(std::int64_t epoch) const {
  const std::vector<std::int64_t> all = all_->order(epoch);
  std::vector<std::int64_t> own;
  for (std::size_t i = static_cast<std::size_t>(rank_); i < all.size();
       i += static_cast<std::size_t>(world_size_)) {
    own.push_back(all[i]);
  }
  return own;
}

}  // namespace ringtape
