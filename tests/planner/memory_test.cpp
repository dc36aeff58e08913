#include "planner/memory.h"

#include <cmath>

#include "nn/gpt_estimate.h"
#include "planner/numbers.h"
#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

const TransformerOptions kGpt2{.vocabulary = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768};
const TransformerOptions kGpt2Xl{
    .vocabulary = 50257, .context = 1024, .layers = 48, .heads = 25, .width = 1600};
const TransformerOptions kGpt3{
    .vocabulary = 50257, .context = 2048, .layers = 96, .heads = 96, .width = 12288};

std::int64_t sum(const std::vector<MemoryRow>& rows) {
  std::int64_t bytes = 0;
  for (const MemoryRow& row : rows) bytes += row.bytes;
  return bytes;
}

std::int64_t bytes_of(const std::vector<MemoryRow>& rows, const std::string& name) {
  for (const MemoryRow& row : rows) {
    if (row.name == name) return row.bytes;
  }
  FAIL("no row " << name);
  return 0;
}

}  // namespace

TEST_CASE("the ZeRO paper's 7.5 billion parameters on 64 GPUs", "[planner]") {
  const ModelState model{.parameters = 7'500'000'000,
                         .trained = 7'500'000'000,
                         .compute_bytes = 2,
                         .gradient_bytes = 2,
                         .state_per_parameter = 2};
  // Figure 1 of the paper, in GB as it prints them, without buckets.
  const double printed[] = {120, 31.4, 16.6, 1.9};
  for (int stage = 0; stage < 4; ++stage) {
    const std::vector<MemoryRow> rows = state_memory(model, {.zero_stage = stage, .ranks = 64});
    const double gigabytes = static_cast<double>(sum(rows) - bytes_of(rows, "buckets")) / 1e9;
    CHECK(std::round(gigabytes * 10) / 10 == Approx(printed[stage]));
  }
}

TEST_CASE("what each ZeRO stage divides", "[planner]") {
  const ModelState model{.parameters = 1001,
                         .trained = 1001,
                         .compute_bytes = 2,
                         .gradient_bytes = 4,
                         .state_per_parameter = 2,
                         .largest_layer = 100};
  const auto rows = [&](int stage) {
    std::vector<std::int64_t> bytes;
    for (const MemoryRow& row : state_memory(model, {.zero_stage = stage, .ranks = 4, .bucket_bytes = 50})) {
      bytes.push_back(row.bytes);
    }
    return bytes;
  };
  using Bytes = std::vector<std::int64_t>;
  CHECK(rows(0) == Bytes{4004, 2002, 4004, 8008, 0});
  CHECK(rows(1) == Bytes{1001, 2002, 4004, 2002, 0});
  CHECK(rows(2) == Bytes{1001, 2002, 1001, 2002, 100});
  CHECK(rows(3) == Bytes{1001, 501, 1001, 2002, 100 + 2 * 100 * 2});
  // In f32 there is no copy, and only stage 3 divides the parameters.
  ModelState in_f32 = model;
  in_f32.compute_bytes = 4;
  CHECK(bytes_of(state_memory(in_f32, {.zero_stage = 2, .ranks = 4}), "parameters") == 4004);
  CHECK(bytes_of(state_memory(in_f32, {.zero_stage = 3, .ranks = 4}), "parameters") == 1001);
  // Inference has no gradients, but gathers layers.
  ModelState inference = model;
  inference.trained = 0;
  CHECK(bytes_of(state_memory(inference, {.zero_stage = 3, .ranks = 4}), "buckets") == 2 * 100 * 2);
  CHECK(bytes_of(state_memory(inference, {.zero_stage = 2, .ranks = 4}), "buckets") == 0);
  // On one rank a stage changes nothing.
  CHECK(sum(state_memory(model, {.zero_stage = 3, .ranks = 1})) == sum(state_memory(model, {})));
}

TEST_CASE("frozen parameters need no gradient and no state", "[planner]") {
  ModelState model{
      .parameters = 1000, .trained = 10, .compute_bytes = 2, .gradient_bytes = 2, .state_per_parameter = 2};
  CHECK(sum(state_memory(model, {})) == 1000 * 2 + 10 * (4 + 2 + 8));
  model.frozen_in_f32 = true;
  CHECK(sum(state_memory(model, {})) == 1000 * (2 + 4) + 10 * (2 + 8));
  CHECK(bytes_of(state_memory(model, {.zero_stage = 1, .ranks = 10}), "parameters in f32") == 990 * 4 + 4);
  model.trained = 0;
  CHECK(sum(state_memory(model, {.zero_stage = 3, .ranks = 10})) == 1000 * 4 + 100 * 2);
}

TEST_CASE("parameters of published transformers", "[planner]") {
  CHECK(parameter_count(kGpt2) == 124'439'808);  // PyTorch counts of the published weights of GPT-2
  CHECK(parameter_count(kGpt2Xl) == 1'557'611'200);
  CHECK(std::round(static_cast<double>(parameter_count(kGpt3)) / 1e8) == 1746);  // "175B"
}

TEST_CASE("activations of a small transformer by hand", "[planner]") {
  // s = 4 tokens, h = 6, a = 2 heads, b = 3 samples, in 16 bits: s b h = 72 and a s^2 b = 96.
  // Attention: its input 144, Q, K and V 432, softmax 192, the mask of its dropout 96 and the result 192, the
  // projection's input 144, the mask of its dropout 72: 11 x 72 + 5 x 96 = 1272.
  // Feed-forward: its input 144, GELU's 576, the second product's 576, a mask 72: 19 x 72 = 1368.
  // Layer norms: 2 x 144 = 288. Outside of the layers: 5 x 72 + 4 x 4 x 3 x 7 = 696 for 7 words.
  const TransformerOptions model{.vocabulary = 7, .context = 4, .layers = 2, .heads = 2, .width = 6};
  const std::vector<MemoryRow> rows = training_activations(model, 3, 2, Recompute::none);
  CHECK(bytes_of(rows, "activations of layers") == 2 * (1272 + 1368 + 288));
  CHECK(bytes_of(rows, "activations outside") == 696);
}

TEST_CASE("activations of a transformer", "[planner]") {
  // GPT-3 as Korthikanti et al. (2022) have it: a s / h = 96 x 2048 / 12288 = 16, so 34 + 5 x 16 = 114, and
  // attention is 80 of these, which selective recomputation leaves out.
  const std::int64_t sbh = std::int64_t{2048} * 12288;
  const auto layers = [&](Recompute recompute) {
    return bytes_of(training_activations(kGpt3, 1, 2, recompute), "activations of layers") / 96;
  };
  CHECK(layers(Recompute::none) == 114 * sbh);
  CHECK(layers(Recompute::selective) == 34 * sbh);
  CHECK(layers(Recompute::full) == 2 * sbh);
  // Recomputed activations exist for one layer at a time.
  CHECK(bytes_of(training_activations(kGpt3, 1, 2, Recompute::selective), "recomputed, one layer") ==
        80 * sbh);
  CHECK(bytes_of(training_activations(kGpt3, 1, 2, Recompute::full), "recomputed, one layer") == 112 * sbh);
  // Outside of the layers 5 s b h + 4 s b v.
  const std::int64_t outside =
      bytes_of(training_activations(kGpt3, 1, 2, Recompute::none), "activations outside");
  CHECK(outside == 5 * sbh + 4 * 2048 * 50257);
  // In f32 the values double, and the masks stay: of 34, 2 are masks; of 5, 1 is.
  CHECK(bytes_of(training_activations(kGpt3, 1, 4, Recompute::none), "activations of layers") / 96 ==
        (66 + 9 * 16) * sbh);
  CHECK(sum(training_activations(kGpt3, 3, 2, Recompute::none)) ==
        3 * sum(training_activations(kGpt3, 1, 2, Recompute::none)));
}

TEST_CASE("inference of a transformer", "[planner]") {
  const MemoryPlan plan = plan_memory(TransformerRequest{.model = kGpt2},
                                      {.micro_batch = 2, .compute = DType::bf16, .inference = true});
  CHECK(bytes_of(plan.rows, "parameters in 16 bits") == 2 * 124'439'808);
  CHECK(bytes_of(plan.rows, "parameters in f32") == 0);
  CHECK(bytes_of(plan.rows, "gradients") + bytes_of(plan.rows, "optimizer state") == 0);
  CHECK(bytes_of(plan.rows, "keys and values") == std::int64_t{2} * 2 * 12 * 1024 * 2 * 768);
  CHECK(bytes_of(plan.rows, "logits in f32") == std::int64_t{4} * 1024 * 2 * 50257);
}

TEST_CASE("an MLP of 4096-2048-2048-4096 without biases, forward only", "[planner]") {
  const MemoryPlan plan = plan_memory(MlpRequest{.sizes = {4096, 2048, 2048, 4096}, .with_bias = false},
                                      {.micro_batch = 4, .inference = true});
  CHECK(bytes_of(plan.rows, "parameters") == 80 << 20);
  CHECK(plan.parameters == 20 << 20);
  CHECK(plan.trained == 0);
  REQUIRE(plan.notes.size() == 2);
  CHECK_THAT(plan.notes[1], ContainsSubstring("4 x 4 x 12,288 = 192 KiB"));  // 0.1875 MiB
  CHECK(bytes_of(plan.rows, "activations") + bytes_of(plan.rows, "data") < 192 << 10);
}

TEST_CASE("an MLP's plan is the estimate that is compared with the allocator", "[planner]") {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (std::int64_t trained : {1, 2, 3}) {
      const MlpRequest mlp{.sizes = {784, 300, 200, 10}, .trainable_layers = trained};
      const MemoryPlan plan = plan_memory(mlp, {.micro_batch = 64, .compute = dtype, .workspace = 1000});
      const BytesByCategory estimate =
          estimate_memory({.sizes = mlp.sizes, .micro_batch = 64, .compute = dtype, .frozen = 3 - trained});
      CHECK(plan.total() == static_cast<std::int64_t>(estimate.total()) + 1000);
      CHECK(bytes_of(plan.rows, "optimizer state") ==
            static_cast<std::int64_t>(estimate[MemoryCategory::optimizer_state]));
    }
  }
  const MemoryPlan plan = plan_memory(MlpRequest{.sizes = {784, 256, 10}}, {.micro_batch = 64});
  CHECK(plan.parameters == 203530);
  CHECK_THAT(memory_text(plan), ContainsSubstring("203,530 parameters"));
  CHECK(memory_json(plan).at("total_bytes").as_int64() == plan.total());
  CHECK(memory_json(plan).at("rows").as_array().size() == plan.rows.size());
}

TEST_CASE("memory plans refuse invalid requests", "[planner]") {
  CHECK_THROWS_WITH(plan_memory(MlpRequest{.sizes = {784}}, {}), ContainsSubstring("found 1"));
  CHECK_THROWS_WITH(plan_memory(MlpRequest{.sizes = {784, 0}}, {}), ContainsSubstring("found 0"));
  CHECK_THROWS_WITH(plan_memory(MlpRequest{.sizes = {7, 1}, .trainable_layers = 2}, {}),
                    ContainsSubstring("2 layers are trained: expected 1 to 1"));
  CHECK_THROWS_WITH(plan_memory(MlpRequest{.sizes = {1 << 30, 1 << 30}}, {}), ContainsSubstring("too large"));
  CHECK_THROWS_WITH(plan_memory(MlpRequest{.sizes = {7, 1}}, {.micro_batch = 0}),
                    ContainsSubstring("found 0"));
  CHECK_THROWS_WITH(plan_memory(MlpRequest{.sizes = {7, 1}}, {.sharding = {.zero_stage = 4}}),
                    ContainsSubstring("found 4"));
  CHECK_THROWS_WITH(plan_memory(MlpRequest{.sizes = {7, 1}}, {.sharding = {.ranks = 0}}),
                    ContainsSubstring("ranks must be from 1"));
  CHECK_THROWS_WITH(plan_memory(TransformerRequest{.model = kGpt2, .trainable_fraction = 0}, {}),
                    ContainsSubstring("trainable fraction must be above 0"));
  CHECK_THROWS_WITH(plan_memory(TransformerRequest{.model = kGpt2, .trainable_fraction = NAN}, {}),
                    ContainsSubstring("found nan"));
  TransformerOptions uneven = kGpt2;
  uneven.heads = 7;
  CHECK_THROWS_WITH(plan_memory(TransformerRequest{.model = uneven}, {}),
                    ContainsSubstring("7 heads do not"));
  uneven.heads = 0;
  CHECK_THROWS_WITH(largest_layer(uneven), ContainsSubstring("heads must be from 1"));
  CHECK_THROWS_WITH(training_activations(kGpt3, std::int64_t{1} << 40, 2, Recompute::none),
                    ContainsSubstring("too large"));
  CHECK_THROWS_WITH(plan_state(0, {}, {}), ContainsSubstring("found 0"));
}

TEST_CASE("bytes as text", "[planner]") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(80 << 20) == "80 MiB");
  CHECK(bytes_text(std::int64_t{3} << 29) == "1.5 GiB");
  CHECK(bytes_text(2'600'000'000) == "2.421 GiB");
}

}  // namespace ringtape::planner::test
