#include "planner/fit.h"

#include <cmath>

#include "autograd/tape.h"
#include "core/memory.h"
#include "planner/fit_trial.h"
#include "planner/memory.h"
#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

/// A trial in which micro-batches up to `limit` fit.
FitTrial up_to(std::int64_t limit, std::int64_t micro_batch) {
  return {.micro_batch = micro_batch, .fits = micro_batch <= limit};
}

}  // namespace

TEST_CASE("doubling and bisection find the largest micro-batch", "[planner]") {
  for (std::int64_t most : {1, 2, 3, 7, 64, 100, 1000}) {
    for (std::int64_t limit = 0; limit <= most + 1; ++limit) {
      INFO(limit << " of " << most);
      const FitResult result =
          largest_that_fits(most, [&](std::int64_t micro_batch) { return up_to(limit, micro_batch); });
      REQUIRE(result.largest == std::min(limit, most));
      REQUIRE(static_cast<double>(result.trials.size()) <= 2 * std::log2(static_cast<double>(most)) + 2);
      for (const FitTrial& trial : result.trials) REQUIRE(trial.micro_batch <= most);
    }
  }
}

TEST_CASE("16 GB, a state of 14 GB, 50 MB an example", "[planner]") {
  const auto attempt = [](std::int64_t micro_batch) {
    const std::int64_t megabytes = 14'000 + 50 * micro_batch;
    return FitTrial{.micro_batch = micro_batch, .bytes = megabytes * 1'000'000, .fits = megabytes <= 16'000};
  };
  const FitResult result = largest_that_fits(256, attempt);
  CHECK(result.largest == 40);
  BatchRequest request{.global_batch = 256, .micro_batch = result.largest, .ranks = 1};
  const BatchPlan plan = plan_batch(request);
  CHECK(plan.shape.accumulation == 7);
  CHECK(plan.shape.global_batch() == 280);
  CHECK(attempt(90).bytes == 18'500'000'000);  // the published answer of 90
  CHECK_THAT(fit_text(result, plan), ContainsSubstring("the largest micro-batch that fits: 40"));
  CHECK(fit_json(result, plan).at("plan").at("accumulation").as_int64() == 7);
}

TEST_CASE("if nothing fits, the error says what helps", "[planner]") {
  const FitResult result =
      largest_that_fits(8, [](std::int64_t micro_batch) { return up_to(0, micro_batch); });
  CHECK(result.trials.size() == 1);
  CHECK_THROWS_WITH(check_fits(result, 1 << 20),
                    ContainsSubstring("not even a micro-batch of 1 fits into 1 MiB"));
  for (const std::string helps : {"recomputation", "ZeRO", "sharded parameters", "tensor or pipeline"}) {
    CHECK_THROWS_WITH(check_fits(result, 1 << 20), ContainsSubstring(helps));
  }
}

TEST_CASE("the largest micro-batch by trial agrees with the estimate", "[planner]") {
  // 784-256-256-10 with Adam takes 4.1 MiB, and about 7 KiB a sample: some hundreds of samples in 8 MiB.
  try_micro_batch({.sizes = {2, 2}}, {}, 1, 0);  // the first update allocates a block that stays
  const std::size_t before = memory_stats({}).live;
  const std::int64_t memory = static_cast<std::int64_t>(before) + (8 << 20);
  for (const char* optimizer : {"adam", "sgd"}) {
    const TrialModel model{.sizes = {784, 256, 256, 10}, .optimizer = &optimizer_named(optimizer)};
    FitResult tried;
    {
      const MemoryCap cap({}, memory);
      tried = largest_that_fits(
          1 << 14, [&](std::int64_t micro_batch) { return try_micro_batch(model, {}, micro_batch, 0); });
    }
    // All memory of the trials is freed, also of those that ran out of memory.
    CHECK(memory_stats({}).live == before);
    CHECK(Tape::current().size() == 0);
    const FitResult worked_out = largest_that_fits(1 << 14, [&](std::int64_t micro_batch) {
      const MemoryRequest request{.micro_batch = micro_batch,
                                  .state_per_parameter = optimizer == std::string("adam") ? 2 : 1};
      const std::int64_t bytes = plan_memory(MlpRequest{.sizes = model.sizes}, request).total();
      return FitTrial{.micro_batch = micro_batch, .bytes = bytes, .fits = bytes <= 8 << 20};
    });
    CHECK(tried.largest > 100);
    CHECK(static_cast<double>(tried.largest) ==
          Approx(static_cast<double>(worked_out.largest)).epsilon(0.05));
    std::size_t too_large = 0;
    for (const FitTrial& trial : tried.trials) {
      CHECK(trial.fits == trial.bytes.has_value());
      CHECK(trial.fits == (trial.samples_per_second.value_or(0) > 0));
      if (trial.fits) CHECK(*trial.bytes <= memory);
      too_large += !trial.fits;
    }
    CHECK(too_large >= 2);
  }
}

TEST_CASE("a model whose parameters alone exceed the memory does not fit", "[planner]") {
  const TrialModel model{.sizes = {784, 2048, 10}};
  const std::size_t before = memory_stats({}).live;
  const MemoryCap cap({}, static_cast<std::int64_t>(before) + (1 << 20));
  CHECK_FALSE(try_micro_batch(model, {}, 1).fits);
  CHECK(memory_stats({}).live == before);
}

}  // namespace ringtape::planner::test
