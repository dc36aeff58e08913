#include "planner/failures.h"

#include <cmath>
#include <random>

#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

constexpr double kMinute = 60, kHour = 3600;

/// The useful share of the time, with failures drawn one by one until `total` seconds have been trained.
double drawn_share(const FailureModel& model, double interval, double total) {
  std::mt19937_64 random(11);
  std::exponential_distribution<double> until_failure(1 / model.mtbf);
  double elapsed = 0, trained = 0;
  while (trained < total) {
    // Failures are memoryless, so each stretch and each restart draws its own time to the next failure.
    const double failure = until_failure(random);
    if (failure >= interval + model.checkpoint) {
      elapsed += interval + model.checkpoint;
      trained += interval;
      continue;
    }
    elapsed += failure;
    for (double again = until_failure(random); again < model.restart; again = until_failure(random))
      elapsed += again;
    elapsed += model.restart;
  }
  return trained / elapsed;
}

}  // namespace

TEST_CASE("the best checkpoint interval", "[planner]") {
  // Young (1974): sqrt(2 x 50 x 20000)
  CHECK(young_interval({.mtbf = 20'000, .checkpoint = 50}) == Approx(std::sqrt(2e6)));
  // Daly (2006), figures 3 to 5: 117 min, 57 min and 9.1 min, for checkpoints of 5 min
  const auto daly = [](double mean) { return daly_interval({mean, 5 * kMinute, 10 * kMinute}) / kMinute; };
  CHECK(std::round(daly(24 * kHour)) == 117);
  CHECK(std::round(daly(6 * kHour)) == 57);
  CHECK(std::round(daly(15 * kMinute) * 10) == 91);
  CHECK(daly_interval({.mtbf = 10, .checkpoint = 20}) == 10);
}

TEST_CASE("failures drawn one by one leave as much useful time as the formula says", "[planner]") {
  const FailureModel model{.mtbf = 3 * kHour, .checkpoint = 100, .restart = 600};
  const double best = daly_interval(model);
  CHECK(drawn_share(model, best, 3e8) == Approx(goodput(model, best)).epsilon(0.005));
  CHECK(drawn_share(model, kHour, 3e8) == Approx(goodput(model, kHour)).epsilon(0.005));
  for (double factor : {0.8, 0.9, 1.1, 1.25}) CHECK(goodput(model, best) > goodput(model, factor * best));
}

}  // namespace ringtape::planner::test
