#include "trace/timing.h"

#include <chrono>
#include <thread>

#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

TEST_CASE("the median is the middle value, the upper one of two", "[core]") {
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({4, 1, 3, 2}) == 3);
  CHECK_THROWS_WITH(median({}), ContainsSubstring("found none"));
}

TEST_CASE("work is timed for the requested rounds, in turn, after a warm-up run", "[core]") {
  std::string order;
  const std::vector<TimedWork> works = {[&] { order += 'a'; }, [&] { order += 'b'; }};
  const std::vector<double> seconds = median_seconds_in_turn(works, {}, {.rounds = 3, .round_seconds = 0});
  CHECK(order ==
        "aabb"
        "ababab");  // the warm-up and an estimate of the duration, then three rounds
  REQUIRE(seconds.size() == 2);
  CHECK(seconds[0] >= 0);
  CHECK_THROWS_WITH(median_seconds(works[0], {}, {.rounds = 0}), ContainsSubstring("at least 1"));
}

TEST_CASE("short work is run again and again within a round, up to a thousand times", "[core]") {
  int runs = 0;
  median_seconds([&] { ++runs; }, {}, {.rounds = 2, .round_seconds = 1e9});
  CHECK(runs == 2 + 2 * 1000);
}

TEST_CASE("timing: the best of the rounds, if most of them are slow", "[timing]") {
  // Runs 1 and 2 are the warm-up; three rounds of one run each follow. Run 4 lies between the end of run 3
  // and the beginning of run 5.
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> begins, ends;
  const auto busy = [&] {
    begins.push_back(Clock::now());
    if (begins.size() != 4) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ends.push_back(Clock::now());
  };
  const double best = best_seconds(busy, {}, {.rounds = 3, .round_seconds = 0});
  REQUIRE(begins.size() == 5);
  CHECK(best <= std::chrono::duration<double>(begins[4] - ends[2]).count());
}

}  // namespace
}  // namespace ringtape::test
