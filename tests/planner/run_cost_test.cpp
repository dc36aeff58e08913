#include "planner/run_cost.h"

#include <cmath>

#include "planner/batch_report.h"
#include "tests/support/catch.h"

namespace ringtape::planner::test {

TEST_CASE("hours and cost of a run", "[planner]") {
  const BatchPlan plan = plan_batch({.global_batch = 1000, .sequence = 100, .micro_batch = 10});  // 100 ranks
  // 3600 updates of 1000 samples at 100 x 2 samples a second take 5 hours; at half that, 10.
  RunRequest run{.updates = 3600, .samples_per_second = 2, .efficiency = 0.5, .price = 3};
  RunCost cost = cost_of_run(run, plan, std::nullopt);
  CHECK(cost.updates == 3600);
  CHECK(cost.samples == 3'600'000);
  CHECK(cost.hours == Approx(10));
  CHECK(cost.gpu_hours == Approx(1000));
  CHECK(cost.cost == Approx(3000));
  CHECK_THAT(batch_text(plan, cost), ContainsSubstring("10 hours on 100 GPUs, 1000 GPU hours, cost 3000.00"));
  CHECK(batch_json(plan, cost).at("run").at("gpu_hours").as_double() == Approx(1000));

  run.updates.reset();
  run.total_tokens = 1'000'001;  // ten updates of 100,000 tokens, and one more for the last token
  CHECK(cost_of_run(run, plan, std::nullopt).updates == 11);
  run.total_tokens.reset();
  run.epochs = 3;
  cost = cost_of_run(run, plan, 1500);
  CHECK(cost.updates == 6);
  CHECK(cost.samples == 4500);
}

TEST_CASE("run costs refuse invalid requests", "[planner]") {
  const BatchPlan plan = plan_batch({.micro_batch = 10});
  const auto cost = [&](RunRequest run) { return cost_of_run(run, plan, std::nullopt); };
  CHECK_THROWS_WITH(cost({.samples_per_second = 1}), ContainsSubstring("how long is the run?"));
  CHECK_THROWS_WITH(cost({.updates = 1, .epochs = 1, .samples_per_second = 1}),
                    ContainsSubstring("Expected one of --max-steps, --epochs and --total-tokens"));
  CHECK_THROWS_WITH(cost({.updates = 0, .samples_per_second = 1}), ContainsSubstring("found 0"));
  CHECK_THROWS_WITH(cost({.updates = 1}), ContainsSubstring("throughput must be above 0, found 0"));
  CHECK_THROWS_WITH(cost({.updates = 1, .samples_per_second = NAN}), ContainsSubstring("found nan"));
  CHECK_THROWS_WITH(cost({.updates = 1, .samples_per_second = 1, .efficiency = 1.5}),
                    ContainsSubstring("found 1.5"));
  CHECK_THROWS_WITH(cost({.updates = 1, .samples_per_second = 1, .price = -1}),
                    ContainsSubstring("found -1"));
  CHECK_THROWS_WITH(cost({.epochs = 1, .samples_per_second = 1}), ContainsSubstring("number of samples"));
  CHECK_THROWS_WITH(cost({.total_tokens = 1, .samples_per_second = 1}),
                    ContainsSubstring("needs the sequence length"));
}

}  // namespace ringtape::planner::test
