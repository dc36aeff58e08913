#include "profile/core_wait.h"

#include <sched.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/child_process.h"

namespace ringtape::test {
namespace {

TEST_CASE("a machine is too busy above a certain share of waiting", "[benchmarks]") {
  CHECK(too_busy(0).empty());
  CHECK(too_busy(kMaxCoreWait).empty());
  CHECK_THAT(too_busy(0.41), ContainsSubstring("too busy") && ContainsSubstring("for 41% of the time") &&
                                 ContainsSubstring("at most 5%"));
  CHECK_THAT(too_busy(std::nullopt), ContainsSubstring("is not known"));
  CHECK_NOTHROW(check_quiet(kMaxCoreWait, "at rest"));
  CHECK_NOTHROW(check_quiet(std::nullopt, "at rest"));
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

  // A process without other threads that sleeps for 20 ms waits at most for the rest of its time.
  const Ending ending = run_in_child([] {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    CoreWait alone;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    alone.pause();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (alone.share().value_or(0) * seconds > seconds - 0.019) _exit(1);
  });
  CHECK_FALSE(ending.by_signal);
  CHECK(ending.code == 0);
}

TEST_CASE("the thread that waits longest for a core counts, even if another thread measures",
          "[benchmarks]") {
  cpu_set_t before, one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);  // new threads have it too
  // Four threads share a core, so each runs for about a quarter of the time and waits for the rest. This
  // thread sleeps, and may then use another core.
  std::barrier begun(5), computed(5), measured(5);
  const auto compute = [&] {
    begun.arrive_and_wait();
    for (std::atomic<int> i = 0; i < 10'000'000; ++i) {
    }
    computed.arrive_and_wait();
    measured.arrive_and_wait();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(compute);
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  CoreWait wait;
  begun.arrive_and_wait();
  computed.arrive_and_wait();
  wait.pause();
  measured.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  const std::optional<double> share = wait.share();
  if (!share) return;  // the system does not count it
  CHECK(*share > 0.6);
  CHECK(*share <= 1);
}

}  // namespace
}  // namespace ringtape::test
