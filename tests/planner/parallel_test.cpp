#include "planner/parallel.h"

#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "dist/pipeline_schedule.h"
#include "dist/traffic.h"
#include "nn/gpt.h"
#include "nn/gpt_estimate.h"
#include "planner/memory.h"
#include "planner/transformer.h"
#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

constexpr TransformerOptions kGpt{
    .vocabulary = 20'000, .context = 512, .layers = 8, .heads = 16, .width = 1024};

ParallelRequest request_of(std::int64_t ranks) {
  ParallelRequest request;
  request.model = kGpt;
  request.ranks = ranks;
  request.global_batch = 64;
  request.compute = DType::f32;
  request.cluster = cluster_preset("h100-ndr");
  return request;
}

/// The fastest plan with these numbers: if there is memory, without recomputation and sequence parallelism.
ParallelPlan only_plan(ParallelRequest request, std::int64_t tensor, std::int64_t pipeline, int zero,
                       std::int64_t micro_batch) {
  if (!request.context) request.context = 1;
  request.tensor = tensor;
  request.pipeline = pipeline;
  request.zero = zero;
  request.micro_batch = micro_batch;
  const ParallelPlans plans = plan_parallel(request);
  REQUIRE(plans.plans.size() == 1);
  return plans.plans.front();
}

/// Seconds of one sample's forward on one rank.
double forward_of_sample(const ParallelRequest& request) {
  return forward_flops(request.model, 1, request.model.context) / request.flops;
}

std::int64_t row(const ParallelPlan& plan, const std::string& name) {
  for (const MemoryRow& each : plan.memory) {
    if (each.name == name) return each.bytes;
  }
  FAIL("no row " << name);
  return 0;
}

}  // namespace

// tests/dist/gpt_part_test.cpp compares memory and calls with those of real updates.

TEST_CASE("plan parallel: one rank has the memory of plan memory and the time of its FLOPs",
          "[planner][parallel]") {
  const ParallelRequest request = request_of(1);
  const ParallelPlan plan = only_plan(request, 1, 1, 0, 4);
  CHECK(plan.bytes == plan_memory(GptRequest{kGpt}, {.micro_batch = 4}).total());
  CHECK(plan.config.micro_batches == 16);
  CHECK(plan.step == Approx(3 * 64 * forward_of_sample(request)));
  CHECK(plan.utilisation == Approx(1));
  CHECK(plan.bytes_sent == 0);
}

TEST_CASE("plan parallel: tensor ranks add the time of their all-reduces", "[planner][parallel]") {
  const ParallelRequest request = request_of(4);
  const ParallelPlan plan = only_plan(request, 4, 1, 0, 2);
  // 4 x 8 + 2 all-reduces of 2 x 512 x 1024 f32, and a gather of 3 x 4 f32 for each of 1024 tokens.
  const double reduce = collective_time(request.cluster, {.ranks = 4, .bytes = 4.0 * 2 * 512 * 1024});
  const double gather = collective_time(
      request.cluster, {.kind = Collective::all_gather, .ranks = 4, .bytes = 4.0 * 12 * 1024});
  const double least = 3 * 64 * forward_of_sample(request) / 4 + 32 * (34 * reduce + gather);
  REQUIRE_FALSE(plan.config.sequence_parallel);
  CHECK(plan.step == Approx(least));
  CHECK(plan.bytes_sent > 0);
}

TEST_CASE("plan parallel: an all-reduce of the gradients, hidden but for the last bucket",
          "[planner][parallel]") {
  ParallelRequest request = request_of(8);
  request.bucket_sizes = {.first_bytes = std::int64_t{1} << 40, .bytes = std::int64_t{1} << 40};
  const ParallelPlan plan = only_plan(request, 1, 1, 0, 8);
  const double elements = static_cast<double>(row(plan, "gradients")) / 4;
  CHECK(plan.step == Approx(3 * 8 * forward_of_sample(request) +
                            collective_time(request.cluster, {.ranks = 8, .bytes = 4 * elements})));
  CHECK(bytes_sent(CommOperation::all_reduce, 8, 4 * elements) == Approx(plan.bytes_sent).epsilon(1e-5));

  // In 16 bits half the bytes are sent, and the step is shorter.
  request.compress = DType::bf16;
  const ParallelPlan compressed = only_plan(request, 1, 1, 0, 8);
  CHECK(compressed.bytes_sent == Approx(plan.bytes_sent / 2).epsilon(1e-5));
  CHECK(compressed.step < plan.step);
}

TEST_CASE("plan parallel: context ranks divide the tokens, and their ring adds its exposed messages",
          "[planner][parallel]") {
  ParallelRequest request = request_of(4);
  request.context = 4;
  request.bucket_sizes = {.first_bytes = std::int64_t{1} << 40, .bytes = std::int64_t{1} << 40};
  const ParallelPlan plan = only_plan(request, 1, 1, 0, 2);
  CHECK(plan.config.mesh == MeshSizes{.context = 4});
  const std::int64_t micro_batches = plan.config.micro_batches;
  CHECK(micro_batches == 32);
  // Of 8 blocks 3 shards forward and 7 backward: keys and values of 2 x 512 / 4 tokens of 1024, f32.
  const double shard = 2.0 * 256 * 1024 * 4;
  const CollectiveCount& exchanges = plan.traffic.context[static_cast<std::size_t>(CommOperation::exchange)];
  CHECK(exchanges.calls == static_cast<std::uint64_t>(32 * 8 * 10));
  CHECK(static_cast<double>(exchanges.bytes) == 32 * 8 * 10 * shard);
  // A message takes longer than the attention to a shard, 2 x 2 T (T + 1) C / 16 FLOPs.
  const double message = request.cluster.intra_node.message(shard);
  const double attention = 2 * 2.0 * 512 * 513 * 1024 / 16 / request.flops;
  REQUIRE(message > 2 * attention);
  const double exposed = 3 * (message - attention) + 3 * (message - 2 * attention) + 4 * message;
  const double gradients = static_cast<double>(row(plan, "gradients"));
  CHECK(plan.step == Approx(3 * 64 * forward_of_sample(request) / 4 + 32 * 8 * exposed +
                            collective_time(request.cluster, {.ranks = 4, .bytes = gradients})));
  request.cluster.intra_node = {.latency = 0, .bandwidth = 1e30};
  request.cluster.call = 0;
  CHECK(only_plan(request, 1, 1, 0, 2).step == Approx(3 * 64 * forward_of_sample(request) / 4));
  // A quarter of the activations, as 4 data ranks with a quarter of the samples have.
  request.context = 1;
  CHECK(static_cast<double>(row(plan, "activations")) ==
        Approx(static_cast<double>(row(only_plan(request, 1, 1, 0, 2), "activations")) / 4).epsilon(0.01));
}

TEST_CASE("plan parallel: a pipeline's bubble is (p - 1) / (v m + p - 1)", "[planner][parallel]") {
  ParallelRequest request = request_of(4);
  request.cluster.intra_node = {.latency = 0, .bandwidth = 1e30};
  request.cluster.call = 0;
  const ParallelPlan plan = only_plan(request, 1, 4, 0, 2);
  const std::int64_t m = 32, p = 4, v = plan.config.chunks;
  CHECK(v == 2);  // 8 layers in 4 stages: two chunks each, with half of the bubble
  CHECK(plan.bubble == Approx(static_cast<double>(p - 1) / static_cast<double>(v * m + p - 1)));
  // The step is m micro-batches of the slowest stage, divided by the share of the time that is not bubble.
  CHECK(plan.step == Approx(plan.computing / (1 - plan.bubble)));
}

TEST_CASE("plan parallel: the bubble is that of the schedule, with fewer micro-batches than stages too",
          "[planner][parallel]") {
  for (const int p : {2, 3, 8, 16}) {
    for (const int v : {1, 2, 4}) {
      for (const int m : {1, 2, 3, 4, 8, 9, 15, 24}) {
        INFO(p << " stages of " << v << " chunks, " << m << " micro-batches");
        const PipelineScheduleKind kind =
            v > 1 ? PipelineScheduleKind::interleaved : PipelineScheduleKind::one_f_one_b;
        double end = 0;
        for (const auto& of_stage : simulate(pipeline_schedule(kind, {p, m, v}), 1, 2)) {
          end = std::max(end, of_stage.back().end);
        }
        const ParallelConfig config{.mesh = {.pipeline = p}, .chunks = v, .micro_batches = m};
        CHECK(m + bubble_in_micro_batches(config) == Approx(end / (3 * v)));
      }
    }
  }
}

TEST_CASE("plan parallel: no step is shorter than the time of a sample through all stages",
          "[planner][parallel]") {
  ParallelRequest request = request_of(8);
  request.model.layers = 32;
  request.global_batch = 1;
  const ParallelPlan plan = only_plan(request, 1, 8, 0, 1);
  CHECK(plan.step >= 3 * forward_of_sample(request));
  CHECK(plan.bubble >= 7.0 / 8);
}

TEST_CASE("plan parallel: the memory is that of the stage that needs most", "[planner][parallel]") {
  ParallelRequest request = request_of(4);
  request.memory *= 4;
  request.model.layers = 9;  // 2 in the first stage, 3 in the next
  const ParallelPlan plan = only_plan(request, 1, 4, 0, 32);
  std::int64_t most = 0;
  for (int stage = 0; stage < 4; ++stage)
    most = std::max(most, plan_of_stage(request, plan.config, stage).bytes);
  CHECK(plan.bytes == most);
  CHECK(most >
        std::max(plan_of_stage(request, plan.config, 0).bytes, plan_of_stage(request, plan.config, 3).bytes));
}

TEST_CASE("plan parallel: the memory of interleaved stages whose number does not divide the micro-batches",
          "[planner][parallel]") {
  ParallelRequest request = request_of(2);
  ParallelConfig config{.mesh = {.pipeline = 2}, .chunks = 4};
  // 9 micro-batches are groups of 3, 2, 2 and 2: 2 + 3 x 3 chunks before the steady state, and one more.
  for (const auto& [micro_batches, in_flight] : {std::pair(std::int64_t{8}, "2.25"),
                                                 {9, "3"},
                                                 {10, "2.25"},
                                                 {(1 << 24) + 8, "2.25"},
                                                 {(1 << 24) + 9, "3"}}) {
    config.micro_batches = micro_batches;
    const ParallelPlan plan = plan_of_stage(request, config, 0);
    const auto activations = std::find_if(plan.memory.begin(), plan.memory.end(),
                                          [](const MemoryRow& each) { return each.name == "activations"; });
    CHECK(activations->how == std::string("1 sample, ") + in_flight + " micro-batches in flight");
  }
}

TEST_CASE("plan parallel: only whole segments before a chunk's last are computed twice",
          "[planner][parallel]") {
  ParallelRequest request = request_of(2);
  request.model.layers = 16;
  request.model.vocabulary = 1'000;  // 8 blocks on each stage
  const double block = costs_of_units(request.model)[1] / request.flops;
  const auto backward = [&](std::int64_t chunks, std::int64_t recompute, std::int64_t again) {
    const ParallelConfig config{
        .mesh = {.pipeline = 2}, .recompute = recompute, .chunks = chunks, .micro_batches = 8};
    const StepModel step = step_of(request, config);
    CHECK(step.backward == Approx(2 * step.forward + static_cast<double>(again) * block));
  };
  backward(1, 0, 0);
  backward(1, 1, 7);
  backward(1, 3, 6);
  backward(4, 1, 4);  // two blocks of each chunk
  backward(4, 2, 0);
}

TEST_CASE("plan parallel: gradients of every micro-batch are reduced without no_sync",
          "[planner][parallel]") {
  const ParallelRequest request = request_of(8);
  ParallelConfig config{.mesh = {.data = 8}, .micro_batches = 4};
  const auto bytes = [&](CommOperation operation, int zero, bool every) {
    config.zero = zero;
    config.every_micro_batch = every;
    return plan_of(request, config).traffic.data[static_cast<std::size_t>(operation)].bytes;
  };
  using enum CommOperation;
  const auto flags = bytes(all_reduce, 1, false);  // of parameters, and the loss
  CHECK(bytes(all_reduce, 0, true) - flags == 4 * (bytes(all_reduce, 0, false) - flags));
  CHECK(bytes(reduce_scatter, 1, true) == 4 * bytes(reduce_scatter, 1, false));
  CHECK(bytes(all_gather, 1, true) == bytes(all_gather, 1, false));
  CHECK(bytes(reduce_scatter, 2, true) == bytes(reduce_scatter, 2, false));
}

TEST_CASE("plan parallel: a micro-batch is any divisor of a rank's samples", "[planner][parallel]") {
  ParallelRequest request = request_of(1);
  request.global_batch = 9;
  request.context = request.tensor = request.pipeline = 1;
  CHECK(plan_parallel(request).configs == 2 * 3);  // 1, 3 and 9 samples, with recomputation and without
}

TEST_CASE("plan parallel: the parameters of each shape are the model's", "[planner][parallel]") {
  const std::int64_t L = 3, C = 24, H = 40, V = 50, T = 8;
  TransformerOptions sizes{.vocabulary = V, .context = T, .layers = L, .heads = 4, .width = C, .hidden = H};
  const std::int64_t gpt = V * C + T * C + C + L * (4 * C * C + 2 * C * H + 2 * C);  // without biases
  const std::int64_t biases = C + L * (2 * C + 4 * C + H + C);  // of norms, attention and MLP
  TransformerOptions without = sizes, llama = llama_options(sizes);
  without.bias = false;
  llama.kv_heads = 2;  // keys and values of half the width
  const std::int64_t of_llama = 2 * V * C + C + L * (3 * C * C + 3 * C * H + 2 * C);
  for (const auto& [model, count] : {std::pair(sizes, gpt + biases), {without, gpt}, {llama, of_llama}}) {
    INFO(count << " parameters");
    ParallelRequest request = request_of(1);
    request.model = model;
    CHECK(parallel_json(request, plan_parallel(request)).at("parameters").as_int64() == count);
    GPT module(model);
    std::int64_t elements = 0;
    for (const NamedParameter& each : module.named_parameters()) elements += each.tensor->elements();
    CHECK(elements == count);
  }
}

TEST_CASE("plan parallel: settings that are given are not searched", "[planner][parallel]") {
  ParallelRequest request = request_of(16);
  request.compress = std::nullopt;
  request.tensor = request.context = request.pipeline = 2;  // and 2 data ranks
  request.zero = 3;
  request.micro_batch = 4;
  const std::int64_t all = plan_parallel(request).configs;
  CHECK(all == 3 * 2 * 2 * 2);  // 1, 2 and 4 chunks; sequence parallelism, recomputation, resharding
  const auto configs_with = [&](const auto& fix) {
    ParallelRequest fixed = request;
    fix(fixed);
    return plan_parallel(fixed);
  };
  CHECK(configs_with([](ParallelRequest& r) { r.sequence_parallel = true; }).configs == all / 2);
  CHECK(configs_with([](ParallelRequest& r) { r.chunks = 2; }).configs == all / 3);
  CHECK(configs_with([](ParallelRequest& r) { r.reshard = false; }).configs == all / 2);
  CHECK(configs_with([](ParallelRequest& r) { r.recompute = 3; }).configs == all / 2);
  for (const bool on : {false, true}) {
    const ParallelPlans plans = configs_with([on](ParallelRequest& r) {
      r.sequence_parallel = r.reshard = on;
      r.chunks = on ? 2 : 1;
      r.recompute = on ? 3 : 0;
    });
    CHECK(plans.configs == 1);
    const ParallelConfig config{.mesh = {.tensor = 2, .context = 2, .data = 2, .pipeline = 2},
                                .zero = 3,
                                .reshard = on,
                                .sequence_parallel = on,
                                .recompute = on ? 3 : 0,
                                .chunks = on ? 2 : 1,
                                .micro_batch = 4,
                                .micro_batches = 8};
    const ParallelPlan expected = plan_of(request, config);
    CHECK(plans.plans.front().bytes == expected.bytes);
    CHECK(plans.plans.front().bytes_sent == expected.bytes_sent);
    const ParallelConfig& found = plans.plans.front().config;
    CHECK(std::tuple(found.sequence_parallel, found.reshard, found.chunks, found.recompute,
                     found.micro_batches) == std::tuple(config.sequence_parallel, config.reshard,
                                                        config.chunks, config.recompute,
                                                        config.micro_batches));
  }
}

TEST_CASE("plan parallel: stages on several nodes send over the slower link", "[planner][parallel]") {
  ParallelRequest request = request_of(16);
  request.model.layers = 32;
  const Link inside = request.cluster.intra_node, between = request.cluster.inter_node;
  const ParallelPlan on_two = only_plan(request, 1, 16, 0, 4);
  request.cluster.ranks_per_node = 16;
  const ParallelPlan on_one = only_plan(request, 1, 16, 0, 4);
  REQUIRE(on_one.config.chunks == on_two.config.chunks);
  // A stage sends 4 x 512 tokens of 1024 f32 per chunk, micro-batch and direction, and waits for as many
  // micro-batches as the bubble has. The gradients of the tied embeddings and the loss are summed once.
  const double messages =
      2 * static_cast<double>(on_two.config.chunks) *
      (static_cast<double>(on_two.config.micro_batches) + bubble_in_micro_batches(on_two.config));
  const double tied = 4.0 * 20'000 * 1024;
  const auto sums = [&](std::int64_t ranks_per_node) {
    request.cluster.ranks_per_node = ranks_per_node;
    return 2 * collective_time(request.cluster, {.ranks = 2, .bytes = (tied + 4) / 2});
  };
  const double message = 4.0 * 4 * 512 * 1024;
  CHECK(on_two.step - on_one.step ==
        Approx(messages * (between.message(message) - inside.message(message)) + sums(1) - sums(16)));
}

TEST_CASE("plan parallel: ZeRO divides state, gradients and values", "[planner][parallel]") {
  const ParallelRequest request = request_of(8);
  std::vector<ParallelPlan> plans;
  for (const int zero : {0, 1, 2, 3}) plans.push_back(only_plan(request, 1, 1, zero, 2));
  const auto about = [](std::int64_t bytes) { return Approx(static_cast<double>(bytes)).epsilon(1e-3); };
  CHECK(static_cast<double>(8 * row(plans[1], "optimizer state")) == about(row(plans[0], "optimizer state")));
  CHECK(static_cast<double>(8 * row(plans[2], "gradients")) == about(row(plans[0], "gradients")));
  CHECK(static_cast<double>(8 * row(plans[3], "parameters")) == about(row(plans[0], "parameters")));
  // Rajbhandari et al., 2020, section 7: stages 1 and 2 send as many bytes as plain data parallelism, stage 3
  // half more. With 4 micro-batches stages 2 and 3 reduce four times, and stage 3 gathers eight times,
  // without resharding four.
  CHECK(plans[1].bytes_sent == Approx(plans[0].bytes_sent).epsilon(1e-3));
  CHECK(plans[2].bytes_sent == Approx(plans[0].bytes_sent * 5 / 2).epsilon(1e-3));
  CHECK(plans[3].bytes_sent == Approx(plans[0].bytes_sent * 8 / 2).epsilon(1e-3));
  CHECK_FALSE(plans[3].config.reshard);  // there is memory for all values
  ParallelConfig config = plans[3].config;
  config.reshard = true;
  const ParallelPlan again = plan_of(request, config);
  CHECK(again.bytes_sent == Approx(plans[0].bytes_sent * 12 / 2).epsilon(1e-3));
  CHECK(row(again, "gathered units") < row(plans[3], "gathered units"));
  CHECK(row(plans[3], "gathered units") >= 4 * parameter_count(request.model));
}

TEST_CASE("plan parallel: the fastest come first, and meshes that are left out have a reason",
          "[planner][parallel]") {
  ParallelRequest request = request_of(48);
  request.memory = 1'500'000'000;
  request.global_batch = 96;
  const ParallelPlans plans = plan_parallel(request);
  REQUIRE(plans.plans.size() > 5);
  for (std::size_t i = 0; i < plans.plans.size(); ++i) {
    CHECK(plans.plans[i].bytes <= request.memory);
    if (i > 0) CHECK(plans.plans[i - 1].step <= plans.plans[i].step);
    CHECK(plans.plans[i].config.mesh.ranks() == 48);
  }
  bool too_large = false, heads = false, layers = false;
  for (const LeftOut& each : plans.left_out) {
    if (each.least_bytes > 0) {
      CHECK(each.least_bytes > request.memory);
      CHECK_THAT(each.reason, ContainsSubstring("more than there are"));
      too_large = true;
    }
    heads =
        heads ||
        each.reason ==
            "3 tensor ranks do not divide 16 heads, the nearest that divides both them and the ranks is 2";
    layers = layers || each.reason == "a model of 8 layers has no block for each of 12 stages";
  }
  CHECK(too_large);
  CHECK(heads);
  CHECK(layers);

  // One chunk for each of 2 stages would be 12 blocks and the output layer, which takes as long as 12; of two
  // chunks the second stage has 4 blocks and the output layer.
  request = request_of(2);
  request.model.layers = 12;
  request.model.vocabulary = 160'000;
  request.pipeline = 2;
  CHECK_FALSE(has_blocks(request, 2, 1));
  for (const ParallelPlan& plan : plan_parallel(request).plans) CHECK(plan.config.chunks == 2);
}

TEST_CASE("plan parallel: lines of ranks have their share of a node's adapters", "[planner][parallel]") {
  const Cluster cluster = cluster_preset("h100-ndr");  // nodes of 8
  CHECK(group_of_ranks(cluster, 1).ranks_per_node == 8);
  CHECK(group_of_ranks(cluster, 2).ranks_per_node == 4);
  CHECK(group_of_ranks(cluster, 2).inter_node.bandwidth == cluster.inter_node.bandwidth / 2);
  CHECK(group_of_ranks(cluster, 32).ranks_per_node == 1);
  CHECK(group_of_ranks(cluster, 32).inter_node.bandwidth == cluster.inter_node.bandwidth / 8);
}

TEST_CASE("plan parallel refuses invalid requests", "[planner][parallel]") {
  const auto refuses = [](const std::function<void(ParallelRequest&)>& change, const std::string& text) {
    ParallelRequest request = request_of(16);
    change(request);
    CHECK_THROWS_WITH(plan_parallel(request), ContainsSubstring(text));
  };
  refuses([](ParallelRequest& r) { r.ranks = 12; }, "12");
  refuses([](ParallelRequest& r) { r.tensor = 3; },
          "--tensor-parallel 3: expected a divisor of the 16 ranks");
  refuses([](ParallelRequest& r) { r.context = 3; },
          "--context-parallel 3: expected a divisor of the 16 ranks");
  refuses([](ParallelRequest& r) { r.context = 16, r.model.context = 48; },
          "sequences of 48 tokens have no 32 equal chunks, the nearest length that has is 64");
  refuses([](ParallelRequest& r) { r.tensor = r.pipeline = 8; },
          "8 tensor ranks and 8 stages do not divide 16 ranks");
  refuses([](ParallelRequest& r) { r.memory = 1'000'000; }, "fits into");
  refuses([](ParallelRequest& r) { r.memory = 0; }, "the memory of a rank");
  refuses([](ParallelRequest& r) { r.pipeline = 16; },
          "a model of 8 layers has no block for each of 16 stages");
  refuses(
      [](ParallelRequest& r) { r.context = 16, r.cluster.ranks_per_node = 6, r.ranks = r.global_batch = 48; },
      "1 tensor x 16 context ranks lie across nodes of 6: expected a divisor or a multiple");
  refuses([](ParallelRequest& r) { r.pipeline = 4, r.chunks = 4; },
          "a model of 8 layers cannot be divided into 4 stages of 4 chunks");
  refuses([](ParallelRequest& r) { r.model.vocabulary = 3, r.tensor = 4; }, "more than a vocabulary of 3");
  refuses([](ParallelRequest& r) { r.compress = DType::bf16, r.zero = 1; }, "--compress cannot be used");
  refuses([](ParallelRequest& r) { r.model.kv_heads = 3; },
          "3 heads of keys and values do not divide 16 heads");
  refuses([](ParallelRequest& r) { r.model.heads = 12; }, "12 heads do not divide the width of 1024");
  refuses([](ParallelRequest& r) { r.model.kv_heads = 2, r.tensor = 4; },
          "4 tensor ranks do not divide 2 heads of keys and values");
  refuses(
      [](ParallelRequest& r) {
        r.model.context = 514, r.context = 1, r.tensor = 4, r.sequence_parallel = true;
      },
      "4 tensor ranks do not divide 514 tokens");
  refuses([](ParallelRequest& r) { r.pipeline = 4, r.chunks = 3; },
          "a model of 8 layers cannot be divided into 4 stages of 3 chunks");
  refuses([](ParallelRequest& r) { r.recompute = 9; }, "at most the 8 that there are");
  refuses([](ParallelRequest& r) { r.flops = 0; }, "FLOP/s");
  refuses([](ParallelRequest& r) { r.global_batch = std::int64_t{1} << 40; }, "too large");
}

}  // namespace ringtape::planner::test
