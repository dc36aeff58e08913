#include <algorithm>
#include <memory>

#include "core/error.h"
#include "data/sampler.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

using Order = std::vector<std::int64_t>;

std::vector<DistributedSampler> samplers(std::int64_t samples, int world_size, std::uint64_t seed = 3) {
  const auto all = std::make_shared<RandomSampler>(samples, seed);
  std::vector<DistributedSampler> result;
  for (int rank = 0; rank < world_size; ++rank) result.emplace_back(all, rank, world_size);
  return result;
}

}  // namespace

TEST_CASE("distributed sampler: the ranks' parts are disjoint and make up the whole", "[loader]") {
  for (std::int64_t samples : {1, 2, 5, 12, 100, 101}) {
    for (int world_size : {1, 2, 3, 4, 7}) {
      INFO(samples << " samples, " << world_size << " ranks");
      for (std::int64_t epoch : {0, 1}) {
        Order all;
        for (const DistributedSampler& sampler : samplers(samples, world_size)) {
          const Order own = sampler.order(epoch);
          CHECK(static_cast<std::int64_t>(own.size()) == sampler.size());
          CHECK((sampler.size() == samples / world_size || sampler.size() == samples / world_size + 1));
          all.insert(all.end(), own.begin(), own.end());
        }
        std::sort(all.begin(), all.end());
        CHECK(all == SequentialSampler(samples).order(0));
      }
    }
  }
}

TEST_CASE("distributed sampler: reshuffled in every epoch, from the seed", "[loader]") {
  const DistributedSampler sampler = samplers(1000, 4)[1];
  CHECK(sampler.order(0) == samplers(1000, 4)[1].order(0));
  CHECK(sampler.order(0) != sampler.order(1));
  CHECK(sampler.order(0) != samplers(1000, 4, 8)[1].order(0));
  // Nor the same samples in another order.
  Order first = sampler.order(0), second = sampler.order(1);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  CHECK(first != second);
}

TEST_CASE("distributed sampler: the global batches are those of one rank", "[loader]") {
  constexpr std::int64_t kSamples = 103, kGlobalBatch = 12;
  const Order whole = RandomSampler(kSamples, 3).order(5);
  for (int world_size : {1, 2, 3, 4, 6}) {
    const auto parts = samplers(kSamples, world_size);
    for (std::int64_t first = 0; first < kSamples; first += kGlobalBatch) {
      const std::int64_t end = std::min(first + kGlobalBatch, kSamples);
      Order batch;
      for (const DistributedSampler& part : parts) {
        const Order own = part.order(5);
        // This rank's batch with the same number.
        const std::int64_t own_batch = kGlobalBatch / world_size;
        const auto size = static_cast<std::int64_t>(own.size());
        const std::int64_t own_first = first / kGlobalBatch * own_batch;
        CHECK(own_first == std::min(part.own_of(first), size));
        CHECK(std::min(own_first + own_batch, size) == part.own_of(end));
        batch.insert(batch.end(), own.begin() + own_first,
                     own.begin() + std::min(own_first + own_batch, size));
      }
      Order expected(whole.begin() + first, whole.begin() + end);
      std::sort(batch.begin(), batch.end());
      std::sort(expected.begin(), expected.end());
      CHECK(batch == expected);
    }
  }
}

TEST_CASE("distributed sampler: invalid arguments", "[loader]") {
  CHECK_THROWS_WITH(DistributedSampler(nullptr, 0, 1), ContainsSubstring("the sampler of all ranks is null"));
  const auto all = std::make_shared<SequentialSampler>(10);
  for (const auto& [rank, world_size] : {std::pair{2, 2}, {-1, 2}, {0, 0}}) {
    CHECK_THROWS_WITH(DistributedSampler(all, rank, world_size),
                      ContainsSubstring("DistributedSampler: rank"));
  }
}
