#include "planner/learning_rate.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

/// ImageNet in 90 epochs, with a rate of 0.1 for a batch of 256.
RateRequest request(std::int64_t batch) {
  RateRequest result{
      .base_rate = 0.1, .batch_size = batch, .epochs = 90, .schedule = {}, .dataset = 1'281'167};
  result.schedule.base_batch = 256;
  result.schedule.warmup = std::nullopt;
  result.schedule.lr_scaling = BatchScaling::linear;
  return result;
}

}  // namespace

TEST_CASE("rates for batches of 8,192 and 32,768 from 0.1 at 256", "[planner]") {
  const RatePlan large = plan_rate(request(8192));
  CHECK(large.linear == Approx(3.2));
  CHECK(large.square_root == Approx(0.565685));
  CHECK(large.length.steps_per_epoch == 157);
  CHECK(large.length.steps == 157 * 90);
  CHECK(large.warmup == 782);                                  // 0.3125 x 8192 / 512 = 5 epochs
  CHECK(large.schedule(0) == Approx(3.2 / 783));               // the first of 782 steps up
  CHECK(large.schedule(782) == Approx(3.2));                   // then down in a line
  CHECK(large.schedule(157 * 90) == Approx(0).margin(1e-12));  // to 0 after the last
  const RatePlan larger = plan_rate(request(32'768));
  CHECK(larger.linear == Approx(12.8));
  CHECK(larger.square_root == Approx(1.131371));
  const std::string text = rate_text(larger);
  CHECK_THAT(text, ContainsSubstring("batch = 32,768 / 256 = 128 times the base batch"));
  CHECK_THAT(text, ContainsSubstring("rate, linear       = 0.1 x 128 = 12.8  <- taken"));
  CHECK_THAT(text, ContainsSubstring("rate, square root  = 0.1 x sqrt(128) = 1.13137\n"));
  CHECK_THAT(text, ContainsSubstring("x 32,768 / 512 = 20 epochs"));
  CHECK_THAT(text, ContainsSubstring("linear warm-up, then linear"));
  CHECK(rate_json(larger).at("base_batch").as_int64() == 256);

  // Without scaling, there is no base batch.
  RateRequest unscaled = request(8192);
  unscaled.schedule.lr_scaling = BatchScaling::none;
  unscaled.schedule.base_batch = ScheduleOptions().base_batch;
  const RatePlan plain = plan_rate(unscaled);
  CHECK(plain.schedule(782) == Approx(0.1));
  CHECK_THAT(rate_text(plain), !ContainsSubstring("base batch") && !ContainsSubstring("linear ="));
  CHECK(rate_json(plain).find("base_batch") == nullptr);
}

TEST_CASE("one cycle from 4e-4", "[planner]") {
  RateRequest cycle = request(64);
  cycle.base_rate = 4e-4;
  cycle.dataset = 64'000;
  cycle.schedule.base_batch = 64;
  cycle.epochs = 1;
  cycle.schedule.kind = ScheduleKind::one_cycle;
  CHECK_THROWS_WITH(plan_rate(cycle),
                    ContainsSubstring("includes a warm-up: expected no --warmup, found auto"));
  cycle.schedule.warmup = 0;
  const RatePlan plan = plan_rate(cycle);
  CHECK(plan.warmup == 0);  // it has its own
  CHECK(plan.schedule(0) == Approx(1.6e-5));
  CHECK(plan.schedule(99) == Approx(4e-4));
  CHECK(plan.schedule(999) == Approx(1.6e-9));
  CHECK_THAT(rate_text(plan), ContainsSubstring("one-cycle rises by itself"));
}

TEST_CASE("a run of a fraction of an epoch", "[planner]") {
  RateRequest part = request(8192);
  part.epochs = 2.5;
  const RatePlan plan = plan_rate(part);
  CHECK(plan.length.steps == 393);
  CHECK_THAT(rate_text(plan), ContainsSubstring("x 2.5 epochs = 157 x 2.5 = 392.5, rounded up to 393\n"));
  CHECK_THAT(rate_text(plan_rate(request(8192))), ContainsSubstring("x 90 epochs = 157 x 90 = 14,130\n"));
}

TEST_CASE("a rate of 0, as in training", "[planner]") {
  RateRequest none = request(8192);
  none.base_rate = 0;
  const RatePlan plan = plan_rate(none);
  CHECK(plan.linear == 0);
  CHECK(plan.schedule(782) == 0);
  CHECK_THAT(rate_text(plan), ContainsSubstring("rate, linear       = 0 x 32 = 0  <- taken"));
}

TEST_CASE("rates as JSON", "[planner]") {
  const RatePlan plan = plan_rate(request(8192));
  const auto json = nlohmann::json::parse(rate_json(plan).dump());
  CHECK(json["linear"].get<double>() == Approx(3.2));
  CHECK(json["warmup_steps"] == 782);
  REQUIRE(json["rates"].size() == 101);
  CHECK(json["rates"][0]["step"] == 1);
  CHECK(json["rates"][100]["step"] == 157 * 90);
  CHECK(json["rates"][50]["rate"].get<double>() == Approx(plan.schedule(157 * 45 - 1)));
  RateRequest single = request(8192);
  single.dataset = 8192;
  single.epochs = 1;
  CHECK(rate_json(plan_rate(single)).at("rates").as_array().size() == 1);
  single.epochs = 3;
  CHECK(rate_json(plan_rate(single)).at("rates").as_array().size() == 3);
}

TEST_CASE("rate plans refuse invalid requests", "[planner]") {
  RateRequest wrong = request(8192);
  wrong.base_rate = -1;
  CHECK_THROWS_WITH(plan_rate(wrong),
                    ContainsSubstring("--lr: expected 0 or a number from 1.4e-45 to 3.4e38, found '-1'"));
  wrong.base_rate = INFINITY;
  CHECK_THROWS_WITH(plan_rate(wrong), ContainsSubstring("found 'inf'"));
  wrong.base_rate = 1e38;
  CHECK_THROWS_WITH(
      plan_rate(wrong),
      ContainsSubstring(
          "--lr 1e+38 scaled from a batch of 256 to 8192: expected at most 3.4e38, found 3.2e+39"));
  CHECK_THROWS_WITH(plan_rate(request(0)), ContainsSubstring("the batch must be from 1"));
  CHECK_THROWS_WITH(plan_rate(request(2'000'000)), ContainsSubstring("larger than the data of 1281167"));
  CHECK_THROWS_WITH(plan_rate(request(1)), ContainsSubstring("115305030 steps: expected at most 10000000"));
  wrong = request(8192);
  wrong.epochs = 0;
  CHECK_THROWS_WITH(plan_rate(wrong),
                    ContainsSubstring("epochs must be above 0 and at most 1000000, found 0"));
  wrong = request(8192);
  wrong.schedule.step_epochs = 0;
  CHECK_THROWS_WITH(plan_rate(wrong), ContainsSubstring("--step-epochs: expected a number from 1 to"));
  wrong.schedule.step_epochs = std::int64_t{1} << 40;
  CHECK_THROWS_WITH(plan_rate(wrong), ContainsSubstring("has no effect: expected --schedule step with it"));
  wrong.schedule.kind = ScheduleKind::step;
  wrong.batch_size = 32;
  CHECK_THROWS_WITH(plan_rate(wrong), ContainsSubstring("too large"));
  wrong = request(8192);
  wrong.schedule.warmup = 14130;
  CHECK_THROWS_WITH(plan_rate(wrong), ContainsSubstring("is not shorter than the training"));
}

}  // namespace ringtape::planner::test
