#include "profile/core_wait.h"

#include <chrono>
#include <thread>

#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

TEST_CASE("a machine is too busy from a certain share of waiting on", "[benchmarks]") {
  CHECK(too_busy(0).empty());
  CHECK(too_busy(kMostCoreWait).empty());
  CHECK_THAT(too_busy(0.41), ContainsSubstring("too busy") && ContainsSubstring("for 41% of the time") &&
                                 ContainsSubstring("at most 5%"));
  CHECK_NOTHROW(check_quiet(kMostCoreWait, "at rest"));
  CHECK_THROWS_WITH(check_quiet(0.41, "at rest"),
                    ContainsSubstring("not measured, at rest: the machine was too busy"));
}

TEST_CASE("waiting for a core is a share of the time, and sleeping is not waiting", "[benchmarks]") {
  CoreWait wait;
  if (!wait.share()) SUCCEED("the system does not count it");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  wait.pause();
  const std::optional<double> share = wait.share();
  if (share) {
    CHECK(*share >= 0);
    CHECK(*share <= 1);
  }
  // Time in a pause does not count.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(wait.share() == share);
}

}  // namespace
}  // namespace ringtape::test
