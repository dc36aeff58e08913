#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/sampler.h"
#include "tests/support/catch.h"

namespace ringtape::test {

// The numbers were computed in Python, from the formula in data/sampler.h, by a Philox4x32-10 that has
// Random123's known answers.
TEST_CASE("draws with replacement follow the documented formula", "[data]") {
  CHECK(ReplacementSampler(1000, 5, 3).order(2) == std::vector<std::int64_t>{995, 766, 395, 283, 254});
}

TEST_CASE("draws with replacement are uniform and independent of each other", "[data]") {
  constexpr std::int64_t kSamples = 10, kDraws = 100'000;
  const std::vector<std::int64_t> draws = ReplacementSampler(kSamples, kDraws, 1).order(0);
  // Counts are binomial: 10,000 +- 95 for one value, 1,000 +- 32 for a pair of neighbours; 5 deviations.
  for (std::int64_t value = 0; value < kSamples; ++value) {
    CHECK(std::abs(std::count(draws.begin(), draws.end(), value) - 10'000) < 475);
    for (std::int64_t next = 0; next < kSamples; ++next) {
      std::int64_t pairs = 0;
      for (std::size_t i = 0; i + 1 < draws.size(); ++i) pairs += draws[i] == value && draws[i + 1] == next;
      CHECK(std::abs(pairs - 1'000) < 160);
    }
  }
  CHECK(draws == ReplacementSampler(kSamples, kDraws, 1).order(0));
  CHECK(draws != ReplacementSampler(kSamples, kDraws, 1).order(1));
  CHECK(draws != ReplacementSampler(kSamples, kDraws, 2).order(0));
  // The first draws do not depend on how many there are.
  const std::vector<std::int64_t> few = ReplacementSampler(kSamples, 10, 1).order(0);
  CHECK(std::equal(few.begin(), few.end(), draws.begin()));
}

TEST_CASE("draws with replacement reach all of a large range", "[data]") {
  constexpr std::int64_t kSamples = std::int64_t{1} << 60;
  const std::vector<std::int64_t> draws = ReplacementSampler(kSamples, 1000, 1).order(0);
  CHECK(*std::min_element(draws.begin(), draws.end()) < kSamples / 100);
  CHECK(*std::max_element(draws.begin(), draws.end()) > kSamples / 100 * 99);
  CHECK(*std::max_element(draws.begin(), draws.end()) < kSamples);
  CHECK_THROWS_AS(ReplacementSampler(0, 1, 0), Error);
  CHECK_THROWS_AS(ReplacementSampler(1, 0, 0), Error);
  CHECK_NOTHROW(ReplacementSampler(1, ReplacementSampler::kMaxDraws, 0));
  CHECK_THROWS_WITH(ReplacementSampler(1, ReplacementSampler::kMaxDraws + 1, 0),
                    ContainsSubstring("at most 134217728 draws"));
}

}  // namespace ringtape::test
