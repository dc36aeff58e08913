#include "dist/watchdog.h"

#include <thread>

#include "tests/support/catch.h"
#include "tests/support/child_process.h"

namespace ringtape::test {

TEST_CASE("watchdog: an operation that is held has no deadline until it is restarted", "[dist][watchdog]") {
  Call call;
  call.operation = Operation::all_reduce;
  const Ending late = run_in_child([&] {
    Watchdog watchdog;
    const std::uint64_t id = watchdog.begin("rank 0 of 2", call, Seconds(0.2));
    watchdog.hold(id);
    watchdog.restart(id);
    std::this_thread::sleep_for(Seconds(60));  // the watchdog ends the process long before
  });
  CHECK_FALSE(late.by_signal);
  CHECK(late.code == 1);
  CHECK_THAT(late.text, ContainsSubstring("error: rank 0 of 2: all_reduce #0") &&
                            ContainsSubstring("did not finish within 0.2 s: a rank is dead, hangs, or"));

  // Nor is one that has ended watched any more.
  const Ending in_time = run_in_child([&] {
    Watchdog watchdog;
    const std::uint64_t held = watchdog.begin("held", call, Seconds(1));
    watchdog.hold(held);
    const std::uint64_t ended = watchdog.begin("ended", call, Seconds(1));
    watchdog.hold(ended);
    watchdog.end(ended);
    watchdog.restart(ended);
    std::this_thread::sleep_for(Seconds(1.5));
  });
  CHECK_FALSE(in_time.by_signal);
  CHECK(in_time.code == 0);
  CHECK(in_time.text.empty());
}

}  // namespace ringtape::test
