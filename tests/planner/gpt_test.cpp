#include "nn/gpt.h"
#include "core/error.h"
#include "core/philox.h"
#include "nn/gpt_estimate.h"
#include "planner/fit_trial.h"
#include "planner/memory.h"
#include "planner/numbers.h"
#include "planner/scale.h"
#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

TransformerOptions random_model(std::uint64_t seed) {
  const on_cpu::Philox4 bits = on_cpu::philox4x32_10(seed, 0, 0);
  const std::int64_t heads = 1 + bits.x % 4;
  return {.vocabulary = 20 + bits.x / 8 % 1000,
          .context = 12 + bits.w % 60,
          .layers = 1 + bits.y % 4,
          .heads = heads,
          .width = heads * (8 + 4 * static_cast<std::int64_t>(bits.z % 6))};
}

std::int64_t elements_of(const TransformerOptions& model) {
  GPT gpt(model);
  std::int64_t elements = 0;
  for (const NamedParameter& parameter : gpt.named_parameters()) elements += parameter.tensor->elements();
  return elements;
}

std::int64_t bytes_of(const MemoryPlan& plan, const std::string& name) {
  for (const MemoryRow& row : plan.rows) {
    if (row.name == name) return row.bytes;
  }
  FAIL("no row " << name);
  return 0;
}

// tests/nn/gpt_estimate_test.cpp compares each category with the allocator's counts.
TEST_CASE("the memory plan of a GPT agrees with an update", "[planner][gpt]") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const TransformerOptions model = random_model(seed);
    const auto recompute = static_cast<std::int64_t>(seed % 3);
    const DType dtype = seed % 2 == 0 ? DType::f32 : DType::bf16;
    if (recompute > model.layers) continue;
    INFO(model.layers << " layers, " << model.width << " wide, " << model.context << " tokens, recompute "
                      << recompute << ", " << name_of(dtype));
    const std::int64_t parameters = elements_of(model);
    const MemoryPlan plan = plan_memory(GptRequest{model, recompute}, {.micro_batch = 5, .compute = dtype});
    CHECK(plan.parameters == parameters);
    CHECK(parameter_count(model) == parameters);
    CHECK(bytes_of(plan, "optimizer state") == 2 * bytes_of(plan, "gradients"));

    const FitTrial trial =
        try_micro_batch({.sizes = {}, .gpt = model, .compute = dtype, .recompute = recompute}, {}, 5, 0);
    REQUIRE(trial.bytes.has_value());
    CHECK(static_cast<double>(plan.total()) == Approx(static_cast<double>(*trial.bytes)).epsilon(0.05));
  }
}

TEST_CASE("a GPT's steps take the FLOPs of its matrix products", "[planner][gpt]") {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const TransformerOptions model = random_model(seed);
    ScaleRequest request;
    request.parameters = parameter_count(model);
    request.micro_batch = 3;
    request.sequence = model.context;
    request.sample_flops = forward_flops(model, 1, model.context);
    request.flops = 1e9;
    request.ranks = {1};
    request.cluster = cluster_presets().front();
    const ScalePlan plan = plan_scale(request);
    CHECK(plan.forward == Approx(forward_flops(model, 3, model.context) / 1e9));
    CHECK(plan.backward == Approx(2 * plan.forward));
  }
}

TEST_CASE("the memory plan of a GPT refuses invalid requests", "[planner][gpt]") {
  const TransformerOptions model = random_model(1);
  CHECK_THROWS_WITH(plan_memory(GptRequest{model, model.layers + 1}, {}),
                    ContainsSubstring("layers are recomputed"));
  CHECK_THROWS_WITH(plan_memory(GptRequest{model}, {.inference = true}), ContainsSubstring("for training"));
  TransformerOptions uneven = model;
  uneven.heads = uneven.width + 1;
  CHECK_THROWS_WITH(plan_memory(GptRequest{uneven}, {}), ContainsSubstring("do not divide the width"));
}

}  // namespace
}  // namespace ringtape::planner::test
