#include "kernels/limits.h"

#include "core/memory.h"
#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

TEST_CASE("the copy that shows a limit reads half of its bytes and writes the other half", "[limits]") {
  constexpr std::size_t kBytes = 1 << 20;
  const auto before = memory_stats({}).live;
  const LimitWork work = copy_work({}, static_cast<double>(kBytes));
  CHECK(work.amount == 0x1p20);
  CHECK(memory_stats({}).live - before == kBytes);  // two arrays, each of half as many
  work.run();
  CHECK(large_copy_bytes({}) / 2 > 64 << 20);  // neither array fits in a cache
}

/// f32 elements of a vector register of the CPU's kernels (kernels/peak.cu), which are compiled with the
/// flags of this file.
#if defined(__AVX512F__)
constexpr double kLanes = 16;
#elif defined(__AVX__)
constexpr double kLanes = 8;
#else
constexpr double kLanes = 4;
#endif

TEST_CASE("the multiply-adds that show a limit count two operations each", "[limits]") {
  // 64 blocks of a thread, 20,000 rounds of ten chains.
  CHECK(multiply_add_work({}).amount == 2 * kLanes * 10 * 20000 * 64);
}

}  // namespace
}  // namespace ringtape::test
