#include "kernels/limits.h"

#include <cmath>

#include "core/memory.h"
#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

TEST_CASE("the copy that shows a limit reads half of its bytes and writes the other half", "[core]") {
  constexpr std::size_t kBytes = 1 << 20;
  const auto before = memory_stats({}).live;
  const LimitWork work = copy_work({}, static_cast<double>(kBytes));
  CHECK(work.amount == 0x1p20);
  CHECK(memory_stats({}).live - before == kBytes);  // two arrays, each of half as many
  work.run();
  CHECK(large_copy_bytes({}) / 2 > 64 << 20);  // neither array fits in a cache
}

TEST_CASE("the multiply-adds that show a limit are as many in each run, two operations each", "[core]") {
  const LimitWork work = multiply_add_work({});
  CHECK(work.amount > 0);
  CHECK(std::fmod(work.amount, 2) == 0);
  CHECK(work.amount == multiply_add_work({}).amount);
}

}  // namespace
}  // namespace ringtape::test
