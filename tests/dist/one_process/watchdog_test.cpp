#include "dist/watchdog.h"

#include <thread>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"

namespace ringtape::test {

TEST_CASE("watchdog: an operation that is held has no deadline until it is restarted", "[dist][watchdog]") {
  Call call;
  call.operation = CommOperation::all_reduce;
  const Ending late = run_in_child([&] {
    Watchdog watchdog;
    Watchdog::Watch watch = watchdog.begin("rank 0 of 2", call, Seconds(0.2));
    watch.hold();
    watch.restart();
    std::this_thread::sleep_for(Seconds(60));  // the watchdog ends the process long before
  });
  CHECK_FALSE(late.by_signal);
  CHECK(late.code == 1);
  CHECK_THAT(late.text, ContainsSubstring("error: rank 0 of 2: all_reduce #0") &&
                            ContainsSubstring("did not finish within 0.2 s: a rank is dead, hangs, or"));

  // Nor is one that has ended, or that an exception has ended, watched any more.
  const Ending in_time = run_in_child([&] {
    Watchdog watchdog;
    Watchdog::Watch held = watchdog.begin("held", call, Seconds(1));
    held.hold();
    Watchdog::Watch ended = watchdog.begin("ended", call, Seconds(1));
    ended.hold();
    ended.end();
    ended.restart();
    try {
      const Watchdog::Watch failed = watchdog.begin("failed", call, Seconds(1));
      throw Error("the operation fails");
    } catch (const Error&) {
      // Its watch has ended with it.
    }
    std::this_thread::sleep_for(Seconds(1.5));
  });
  CHECK_FALSE(in_time.by_signal);
  CHECK(in_time.code == 0);
  CHECK(in_time.text.empty());
}

}  // namespace ringtape::test
