#include "data/sampler.h"

#include <numeric>
#include <utility>

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

}  // namespace ringtape
