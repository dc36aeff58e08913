#include "optim/schedule.h"

#include <string>

#include "io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/tensors.h"

namespace ringtape::test {

TEST_CASE("schedules have the rates of PyTorch's", "[schedule]") {
  const SafetensorsFile golden(std::string(RINGTAPE_TEST_DATA) + "/schedules.safetensors");
  const struct {
    const char* name;
    Schedule schedule;
  } cases[] = {
      {"step", schedule::step_decay(0.1, 7, 0.3)},
      {"polynomial", schedule::polynomial(0.1, 50, 2)},
      {"linear", schedule::linear_decay(0.1, 50)},
      {"cosine", schedule::cosine(0.1, 60, 1e-4)},
      {"one_cycle", schedule::one_cycle(0.1, 60)},
      {"constant_warmup", schedule::warm_up(schedule::Warmup::constant, 5, schedule::constant(0.1))},
      {"linear_warmup_cosine", schedule::warm_up(schedule::Warmup::linear, 5, schedule::cosine(0.1, 55))},
  };
  for (const auto& test : cases) {
    INFO(test.name);
    std::vector<double> rates;
    for (std::int64_t step = 0; step < 60; ++step) rates.push_back(test.schedule(step));
    // PyTorch multiplies the last rate to get the next one, which adds a rounding at each of the 60 steps.
    check_close(rates, golden.load(test.name).to_doubles(), 1e-12, 1e-15);
  }
}

TEST_CASE("schedules by hand", "[schedule]") {
  const Schedule cycle = schedule::one_cycle(4e-4, 1000);
  CHECK(cycle(0) == Approx(1.6e-5));
  CHECK(cycle(99) == Approx(4e-4));
  CHECK(cycle(999) == Approx(1.6e-9));
  CHECK(cycle(5000) == Approx(1.6e-9));

  const Schedule rising = schedule::warm_up(schedule::Warmup::quadratic, 3, schedule::constant(1.6));
  CHECK(rising(0) == Approx(0.1));
  CHECK(rising(1) == Approx(0.4));
  CHECK(rising(2) == Approx(0.9));
  CHECK(rising(3) == Approx(1.6));

  CHECK(schedule::linear_decay(1, 10, 0.5)(5) == Approx(0.75));
  CHECK(schedule::linear_decay(1, 10)(11) == 0);
}

TEST_CASE("rates for another batch", "[schedule]") {
  CHECK(scale_rate(BatchScaling::linear, 0.1, 8192, 256) == Approx(3.2));
  CHECK(scale_rate(BatchScaling::square_root, 0.1, 8192, 256) == Approx(0.565685));
  CHECK(scale_rate(BatchScaling::linear, 0.1, 32768, 256) == Approx(12.8));
  CHECK(scale_rate(BatchScaling::square_root, 0.1, 32768, 256) == Approx(1.131371));
  CHECK(scale_rate(BatchScaling::none, 0.1, 8192, 256) == 0.1);
  // 0.3125 epochs at batch 512 of 1,281,167 images are 782 steps, and so are 20 epochs at 32,768.
  CHECK(suggested_warmup_steps(1281167, 512, 1000000) == 782);
  CHECK(suggested_warmup_steps(1281167, 32768, 1000000) == 782);
  CHECK(suggested_warmup_steps(60000, 8192, 40) == 10);
}

TEST_CASE("schedules refuse invalid settings", "[schedule]") {
  CHECK_THROWS_WITH(schedule::constant(-1),
                    ContainsSubstring("the rate must be finite and at least 0, found -1"));
  CHECK_THROWS_WITH(schedule::cosine(0.1, 0), ContainsSubstring("number of steps must be at least 1"));
  CHECK_THROWS_WITH(schedule::one_cycle(0.1, 10, 1.5), ContainsSubstring("in [0, 1], found 1.5"));
  CHECK_THROWS_WITH(schedule::warm_up(schedule::Warmup::linear, -1, schedule::constant(1)),
                    ContainsSubstring("found -1"));
  CHECK_THROWS_WITH(schedule::then(schedule::constant(1), -3, schedule::constant(1)),
                    ContainsSubstring("must have at least 0 steps, found -3"));
  CHECK_THROWS_WITH(Schedule()(3),
                    ContainsSubstring("the schedule is empty: expected a function of the step"));
  CHECK_THROWS_WITH(Schedule(nullptr)(3), ContainsSubstring("the schedule is empty"));
  CHECK_THROWS_WITH(schedule::warm_up(schedule::Warmup::linear, 2, {}),
                    ContainsSubstring("the schedule after the warm-up is empty"));
  CHECK_THROWS_WITH(scale_rate(BatchScaling::linear, 0.1, 0, 256), ContainsSubstring("found 0 and 256"));
}

}  // namespace ringtape::test
