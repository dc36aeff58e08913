#include "planner/training_step.h"

#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

/// Each collective takes `seconds` per byte after the last rank has called it; an all-gather or a
/// reduce-scatter takes half of that.
Communicate taking(double seconds) {
  return [seconds](Collective kind, double bytes, std::vector<double>& times) {
    const double last = *std::max_element(times.begin(), times.end());
    std::fill(times.begin(), times.end(),
              last + (kind == Collective::all_reduce ? 1 : 0.5) * seconds * bytes);
  };
}

StepTimes step_of(const StepModel& model, double seconds, std::int64_t ranks = 4) {
  return simulate_steps(model, ranks, 1, Jitter({}), taking(seconds));
}

/// 10 s forward, 20 s backward, 5 s update, two buckets of 1 and 3 bytes: complete at 15 and at 30.
StepModel two_buckets() {
  return {.forward = 10, .backward = 20, .optimizer = 5, .buckets = {1, 3}};
}

}  // namespace

TEST_CASE("buckets are reduced while backward goes on", "[planner]") {
  // 2 s a byte: the first from 15 to 17, the second from 30 to 36.
  StepTimes times = step_of(two_buckets(), 2);
  CHECK(times.step == Approx(41));
  CHECK(times.computing == Approx(35));
  CHECK(times.exposed == Approx(6));
  CHECK(times.communicating == Approx(8));
  CHECK(times.waiting == Approx(0).margin(1e-12));
  // 16 s a byte: the first until 31, and the second only then, until 79.
  CHECK(step_of(two_buckets(), 16).step == Approx(31 + 48 + 5));
  StepModel model = two_buckets();
  model.overlap = false;
  CHECK(step_of(model, 2).step == Approx(35 + 8));
  CHECK(step_of(model, 2).exposed == Approx(8));
}

TEST_CASE("accumulation reduces once, or every time without no_sync()", "[planner]") {
  StepModel model = two_buckets();
  model.accumulation = 3;
  CHECK(step_of(model, 2).step == Approx(3 * 30 + 6 + 5));
  CHECK(step_of(model, 2).communicating == Approx(8));
  model.every_micro_batch = true;
  CHECK(step_of(model, 2).step == Approx(3 * 36 + 5));
  CHECK(step_of(model, 2).communicating == Approx(24));
}

TEST_CASE("steps with the stages of ZeRO, by hand", "[planner]") {
  StepModel model = two_buckets();
  model.accumulation = 2;
  // Stage 1: the large bucket is gathered until 3 and computes until 10.5; the small one is gathered
  // meanwhile. Then 50 s, scatters half as long as above, the second bucket's 3 s, and the update.
  model.zero = 1;
  CHECK(step_of(model, 2).step == Approx(13 + 50 + 3 + 5));
  CHECK(step_of(model, 2).communicating == Approx(8));
  model.overlap = false;
  CHECK(step_of(model, 2).step == Approx(4 + 60 + 4 + 5));
  model.overlap = true;
  model.zero = 2;  // a scatter after each backward
  CHECK(step_of(model, 2).step == Approx(36 + 33 + 5));
  CHECK(step_of(model, 2).communicating == Approx(12));
  model.gathered_per_gradient = 0.5;
  CHECK(step_of(model, 2).communicating == Approx(10));

  // Stage 3, one micro-batch. Forward: the large bucket is gathered until 3 and computes until 10.5; the
  // small one is gathered meanwhile, and computes until 13. Backward: small gathered until 14, computes until
  // 19; large gathered from 14 to 17, computes until 34; scatters from 19 to 20 and from 34 to 37. Update
  // until 42.
  model = two_buckets();
  model.zero = 3;
  CHECK(step_of(model, 2).step == Approx(42));
  CHECK(step_of(model, 2).communicating == Approx(3 + 1 + 1 + 3 + 1 + 3));
}

TEST_CASE("all ranks wait for the slowest", "[planner]") {
  // Of n exponential delays of mean v the longest has mean v (1 + 1/2 + ... + 1/n).
  const StepModel model{.forward = 1, .backward = 2, .buckets = {1}};
  double harmonic = 0;
  for (int i = 1; i <= 64; ++i) harmonic += 1.0 / i;
  const JitterRequest request{.variation = 0.1, .shape = JitterRequest::Shape::exponential, .seed = 5};
  const StepTimes times = simulate_steps(model, 64, 4000, Jitter(request), taking(0));
  CHECK(times.step == Approx(3 * (0.9 + 0.1 * harmonic)).epsilon(0.005));
  CHECK(times.computing == Approx(3).epsilon(0.005));
  CHECK(times.exposed == Approx(0).margin(1e-9));
  CHECK(times.step == Approx(times.computing + times.waiting));
}

TEST_CASE("jitter has the requested mean and deviation", "[planner]") {
  for (auto shape : {JitterRequest::Shape::lognormal, JitterRequest::Shape::exponential}) {
    Jitter jitter({.variation = 0.3, .shape = shape, .seed = 1});
    double sum = 0, squares = 0, smallest = 1;
    constexpr int kDraws = 200'000;
    for (int i = 0; i < kDraws; ++i) {
      const double factor = jitter.next();
      smallest = std::min(smallest, factor);
      sum += factor;
      squares += factor * factor;
    }
    const double mean = sum / kDraws;
    CHECK(smallest > 0);
    CHECK(mean == Approx(1).epsilon(0.005));
    CHECK(std::sqrt(squares / kDraws - mean * mean) == Approx(0.3).epsilon(0.02));
  }
  CHECK(Jitter({.variation = 0.3, .seed = 7}).next() == Jitter({.variation = 0.3, .seed = 7}).next());
  CHECK(Jitter({.variation = 0.3, .seed = 7}).next() != Jitter({.variation = 0.3, .seed = 8}).next());
  CHECK(Jitter({}).next() == 1);
  CHECK_THROWS_WITH(Jitter({.variation = -1}), ContainsSubstring("found -1"));
  CHECK_THROWS_WITH(Jitter({.variation = NAN}), ContainsSubstring("found nan"));
}

}  // namespace ringtape::planner::test
