#include "data/sampler.h"

#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace ringtape {
namespace {

constexpr std::uint64_t kShuffleStream = std::uint64_t{1} << 63;

// floor(a b / 2^64)
std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> 64);
}

}  // namespace

std::vector<std::int64_t> SequentialSampler::order(std::int64_t) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(samples_));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

std::vector<std::int64_t> RandomSampler::order(std::int64_t epoch) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(samples_));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  for (std::uint64_t i = indices.size(); i-- > 1;) {
    const on_cpu::Philox4 random =
        on_cpu::philox4x32_10(seed_, i, kShuffleStream + static_cast<std::uint64_t>(epoch));
    const std::uint64_t r = static_cast<std::uint64_t>(random.y) << 32 | random.x;
    std::swap(indices[i], indices[multiply_high(r, i + 1)]);
  }
  return indices;
}

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> all, int rank, int world_size)
    : all_(std::move(all)), rank_(rank), world_size_(world_size) {
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
