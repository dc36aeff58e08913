#include "planner/batch.h"

#include "core/ceil_div.h"
#include "planner/numbers.h"
#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

BatchShape shape(std::int64_t micro_batch, std::int64_t accumulation, std::int64_t ranks) {
  return {.micro_batch = micro_batch, .accumulation = accumulation, .ranks = ranks};
}

}  // namespace

TEST_CASE("4,000,000 tokens in samples of 4,000", "[planner]") {
  BatchRequest request{.global_tokens = 4'000'000, .sequence = 4000, .micro_batch = 2};
  const BatchPlan many = plan_batch(request);
  CHECK(many.shape == shape(2, 1, 500));
  CHECK(many.target == 1000);
  CHECK(many.is_exact());
  CHECK(many.exact.empty());
  CHECK(many.notes.empty());

  request.ranks = 128;
  const BatchPlan few = plan_batch(request);
  CHECK(few.shape == shape(2, 4, 128));
  CHECK(few.shape.global_batch() == 1024);
  CHECK_THAT(all(few.arithmetic), ContainsSubstring("4,000,000 tokens / 4,000 = 1,000 samples"));
  CHECK_THAT(all(few.arithmetic), ContainsSubstring("1,000 / (2 x 128) = 3.90625, rounded up to 4"));
  CHECK_THAT(all(few.notes), ContainsSubstring("1,024 samples, 24 more than the 1,000 requested"));
  // 1000 / 2 = 500 micro-batches: the divisors of 500 next to 128 are 125 and 250.
  CHECK(few.exact == std::vector<BatchShape>{shape(2, 4, 125), shape(2, 2, 250), shape(2, 3, 128)});
}

TEST_CASE("any two numbers and the batch give the third", "[planner]") {
  for (std::int64_t micro : {1, 3, 8}) {
    for (std::int64_t steps : {1, 5}) {
      for (std::int64_t ranks : {1, 2, 7}) {
        const BatchShape whole = shape(micro, steps, ranks);
        const std::int64_t batch = micro * steps * ranks;
        CHECK(plan_batch({.global_batch = batch, .accumulation = steps, .ranks = ranks}).shape == whole);
        CHECK(plan_batch({.global_batch = batch, .micro_batch = micro, .ranks = ranks}).shape == whole);
        CHECK(plan_batch({.global_batch = batch, .micro_batch = micro, .accumulation = steps}).shape ==
              whole);
        CHECK(plan_batch({.micro_batch = micro, .accumulation = steps, .ranks = ranks}).target == batch);
      }
    }
  }
}

TEST_CASE("plans meet their target with whole numbers, and alternatives are exact", "[planner]") {
  for (std::int64_t target = 1; target <= 120; ++target) {
    for (std::int64_t micro_batch = 1; micro_batch <= std::min<std::int64_t>(target, 9); ++micro_batch) {
      for (std::int64_t ranks = 1; ranks <= 130; ranks += 3) {
        const BatchPlan plan =
            plan_batch({.global_batch = target, .micro_batch = micro_batch, .ranks = ranks});
        INFO(target << " by " << micro_batch << " on " << ranks);
        REQUIRE(plan.shape.global_batch() >= target);
        REQUIRE(plan.shape.ranks + plan.idle_ranks == ranks);
        // One accumulation step or one rank fewer would not be enough.
        const bool needs_all = plan.idle_ranks == 0
                                   ? micro_batch * (plan.shape.accumulation - 1) * ranks < target
                                   : micro_batch * (plan.shape.ranks - 1) < target;
        REQUIRE(needs_all);
        REQUIRE(plan.exact.empty() == (plan.is_exact() && plan.idle_ranks == 0));
        for (const BatchShape& exact : plan.exact) {
          const bool same_batch = exact.global_batch() == target;
          const bool same_setup = exact.micro_batch == micro_batch && exact.ranks == ranks;
          REQUIRE((same_batch || same_setup));
        }
      }
    }
  }
}

TEST_CASE("more GPUs than the batch can use", "[planner]") {
  const BatchPlan plan = plan_batch({.global_batch = 64, .micro_batch = 2, .ranks = 64});
  CHECK(plan.shape == shape(2, 1, 32));
  CHECK(plan.idle_ranks == 32);
  CHECK_THAT(all(plan.arithmetic), ContainsSubstring("64 / (2 x 64) = 0.5, rounded up to 1"));
  const std::string notes = all(plan.notes);
  CHECK_THAT(notes, ContainsSubstring("64 GPUs are more than the batch can use: 32 have work, 32 would be"));
  CHECK_THAT(notes, ContainsSubstring("rent 32 GPUs"));
  CHECK_THAT(notes, ContainsSubstring("a micro-batch of 1"));
  CHECK_THAT(notes, ContainsSubstring("a global batch of 128 samples"));
  CHECK_THAT(notes, ContainsSubstring("over 2 GPUs each"));
  CHECK(plan.exact == std::vector<BatchShape>{shape(1, 1, 64), shape(2, 1, 64)});

  // More GPUs than samples: no micro-batch helps.
  const BatchPlan more = plan_batch({.global_batch = 10, .ranks = 16});
  CHECK(more.shape == shape(1, 1, 10));
  CHECK(more.idle_ranks == 6);
  const BatchPlan steps = plan_batch({.global_batch = 64, .accumulation = 8, .ranks = 16});
  CHECK(steps.shape == shape(1, 8, 8));
  CHECK_THAT(all(steps.notes), ContainsSubstring("fewer accumulation steps than 8"));
}

TEST_CASE("accumulation is capped when asked", "[planner]") {
  const BatchRequest request{.global_batch = 1024, .micro_batch = 4, .ranks = 16, .max_accumulation = 8};
  const BatchPlan plan = plan_batch(request);
  CHECK(plan.shape == shape(4, 8, 16));
  CHECK_THAT(all(plan.notes), ContainsSubstring("16 accumulation steps were capped at 8"));
  CHECK_THAT(all(plan.notes), ContainsSubstring("32 ranks would meet the target, or a micro-batch of 8"));
  CHECK_THAT(all(plan.notes), ContainsSubstring("512 less than the 1,024 requested"));
  CHECK(plan.exact == std::vector<BatchShape>{shape(8, 8, 16), shape(4, 8, 32)});
  CHECK_THROWS_WITH(plan_batch({.micro_batch = 1, .accumulation = 9, .max_accumulation = 8}),
                    ContainsSubstring("9 accumulation steps are more than the cap of 8"));
}

TEST_CASE("100 examples", "[planner]") {
  const BatchPlan whole = plan_batch({.global_batch = 20, .micro_batch = 20, .dataset = 100});
  CHECK(whole.epoch->updates == 5);
  CHECK(whole.epoch->last_accumulation == 1);
  const BatchPlan pieces = plan_batch({.micro_batch = 10, .accumulation = 8, .dataset = 100});
  CHECK(pieces.shape.global_batch() == 80);
  CHECK(pieces.epoch->updates == 2);
  CHECK(pieces.epoch->last_samples == 20);
  CHECK(pieces.epoch->last_accumulation == 2);
  CHECK_THAT(all(pieces.arithmetic),
             ContainsSubstring("2 updates, the last of 20 samples in 2 accumulation steps"));
}

TEST_CASE("a batch as a share of the data", "[planner]") {
  const BatchPlan plan = plan_batch({.micro_batch = 8, .ranks = 4, .dataset = 60'000, .data_percent = 1});
  CHECK(plan.target == 600);
  CHECK(plan.shape == shape(8, 19, 4));
  CHECK_THAT(all(plan.arithmetic), ContainsSubstring("(0.1% to 1%: 60 to 600)"));
  CHECK(plan_batch({.micro_batch = 1, .dataset = 5, .data_percent = 0.1}).target == 1);
  CHECK_THROWS_WITH(plan_batch({.micro_batch = 1, .dataset = 500, .data_percent = 2}),
                    ContainsSubstring("0.1 to 1 percent of it, found 2"));
  CHECK_THROWS_WITH(plan_batch({.micro_batch = 1, .data_percent = 1}),
                    ContainsSubstring("needs the number of samples"));
  CHECK_THROWS_WITH(plan_batch({.global_batch = 8, .micro_batch = 1, .dataset = 500, .data_percent = 1}),
                    ContainsSubstring("both as a number and as a share"));
}

TEST_CASE("tokens and samples", "[planner]") {
  CHECK(plan_batch({.global_batch = 10, .global_tokens = 1000, .micro_batch = 1}).sequence == 100);
  const BatchPlan rounded = plan_batch({.global_tokens = 1001, .sequence = 100, .micro_batch = 1});
  CHECK(rounded.target == 11);
  CHECK_THAT(all(rounded.arithmetic),
             ContainsSubstring("1,001 tokens / 100 = 10.01, rounded up to 11 samples"));
  CHECK_THROWS_WITH(plan_batch({.global_batch = 9, .global_tokens = 1000, .sequence = 100, .micro_batch = 1}),
                    ContainsSubstring("the global batch is 9 samples, but 1000 tokens of 100 each are 10"));
  CHECK_THROWS_WITH(plan_batch({.global_batch = 3, .global_tokens = 1000, .micro_batch = 1}),
                    ContainsSubstring("1000 tokens: expected a whole number for each of 3 samples"));
  CHECK_THROWS_WITH(plan_batch({.global_tokens = 1000, .micro_batch = 1}),
                    ContainsSubstring("needs the sequence length"));
}

TEST_CASE("batch plans refuse invalid requests", "[planner]") {
  CHECK_THROWS_WITH(plan_batch({}), ContainsSubstring("too little to go by"));
  CHECK_THROWS_WITH(plan_batch({.accumulation = 4, .ranks = 2}), ContainsSubstring("too little to go by"));
  CHECK_THROWS_WITH(plan_batch({.global_batch = 8, .accumulation = 4}),
                    ContainsSubstring("too little to go by"));
  CHECK_THROWS_WITH(plan_batch({.global_batch = 8, .micro_batch = 9}),
                    ContainsSubstring("the micro-batch of 9 is larger than the global batch of 8"));
  CHECK_THROWS_WITH(
      plan_batch({.global_batch = 8, .micro_batch = 2, .accumulation = 2, .ranks = 3}),
      ContainsSubstring("micro-batch 2 x accumulation 2 x ranks 3 = 12, but the global batch is 8"));
  CHECK_THROWS_WITH(plan_batch({.global_batch = 0}), ContainsSubstring("global batch must be from 1"));
  CHECK_THROWS_WITH(plan_batch({.micro_batch = -1}), ContainsSubstring("found -1"));
  CHECK_THROWS_WITH(plan_batch({.micro_batch = kMaxSize, .accumulation = kMaxSize}),
                    ContainsSubstring("too large"));
  CHECK_THROWS_WITH(plan_batch({.micro_batch = 200, .dataset = 100}),
                    ContainsSubstring("global batch of 200 is larger than the data of 100"));
}

TEST_CASE("numbers as text", "[planner]") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-1000) == "-1,000");
  CHECK(grouped(-100) == "-100");
  CHECK(grouped(1, "GPU") == "1 GPU");
  CHECK(grouped(1024, "GPU") == "1,024 GPUs");
  CHECK(counted(1024, "GPU") == "1024 GPUs");
  CHECK(updates_of(2.5, 157) == 393);
  CHECK(updates_of(1.1, 10) == 11);
  CHECK(updates_of(1e-6, 1) == 1);
  CHECK(ceil_div(7, 2) == 4);
  CHECK(ceil_div(0, 2) == 0);
}

}  // namespace ringtape::planner::test
