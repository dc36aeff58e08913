#include "dist/watchdog.h"

#include <thread>

#include "tests/support/catch.h"

namespace ringtape::test {

TEST_CASE("watchdog: an operation that is held has no deadline", "[dist][watchdog]") {
  Watchdog watchdog;
  Call call;
  call.operation = Operation::all_reduce;
  // A deadline that passes would end this process.
  const std::uint64_t held = watchdog.begin("rank 0 of 2", call, Seconds(1));
  watchdog.hold(held);
  std::this_thread::sleep_for(Seconds(1.5));
  watchdog.end(held);
  // restart() sets it again from now on; an operation that has ended is watched no more.
  const std::uint64_t begun = watchdog.begin("rank 0 of 2", call, Seconds(60));
  watchdog.hold(begun);
  watchdog.restart(begun);
  watchdog.end(begun);
  watchdog.restart(begun);
  watchdog.hold(begun);
}

}  // namespace ringtape::test
