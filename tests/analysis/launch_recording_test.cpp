#include "benchmarks/kernels/launch_recording.h"

#include <vector>

#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

using kernel_cases::LaunchRecording;
using kernel_cases::RecordedLaunch;

TEST_CASE("a launch recording has the shapes of a GPU and runs no thread", "[analysis]") {
  const Stream stream = Stream::current({});
  std::vector<float> x(5000, 1.0f);
  {
    LaunchRecording recording;
    fill(stream, DType::f32, x.data(), 5000, 2.0);
    fill(stream, DType::f32, x.data(), 1024, 3.0);
    const std::vector<RecordedLaunch> launches = recording.launches();
    REQUIRE(launches.size() == 2);
    CHECK(launches[0].kernel == "fill<float>");
    // 256 threads, each with 16 bytes.
    CHECK(launches[0].grid.x == 5);
    CHECK(launches[1].grid.x == 1);
    CHECK(launches[0].block.x == 256);
    CHECK(launches[0].shared_bytes == 0);
    recording.clear();
    CHECK(recording.launches().empty());
  }
  CHECK(x == std::vector<float>(5000, 1.0f));
  fill(stream, DType::f32, x.data(), 5000, 2.0);
  CHECK(x == std::vector<float>(5000, 2.0f));
}

TEST_CASE("a launch recording has the dynamic shared memory, with a row as long as an H100 stages it",
          "[analysis]") {
  LaunchRecording recording;
  const std::int64_t target = 0;
  int invalid = 0;
  float logit = 0, loss = 0;
  CrossEntropyProblem problem{DType::bf16, DType::i64, &target, 1, 50304, -100, 0, nullptr, &invalid};
  cross_entropy_fused(Stream::current({}), problem, &logit, &loss);
  const std::vector<RecordedLaunch> launches = recording.launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].kernel == "cross_entropy_block_per_row<bfloat16, (Pass)2, true>");
  CHECK(launches[0].shared_bytes == 50304 * 2 + 16);
}

}  // namespace
}  // namespace ringtape::test
