#include "planner/scale.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "nn/gpt_estimate.h"
#include "planner/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/xml.h"

namespace ringtape::planner::test {
namespace {

/// 10 million parameters, 1 + 3 x 5 + 4 MB of gradients, and 10 ms forward, 20 ms backward for 4 samples.
ScaleRequest small_request() {
  ScaleRequest request;
  request.parameters = 10'000'000;
  request.micro_batch = 4;
  request.forward = 10e-3;
  request.backward = 20e-3;
  request.first_bucket = 1'000'000;
  request.bucket = 5'000'000;
  request.cluster = cluster_preset("h100-ndr");
  request.ranks = {1, 8, 64};
  return request;
}

const ScalePoint& point_at(const ScalePlan& plan, std::int64_t ranks) {
  for (const ScalePoint& point : plan.asked.points) {
    if (point.ranks == ranks) return point;
  }
  FAIL("no point for " << ranks << " ranks");
  throw;
}

}  // namespace

TEST_CASE("buckets of a number of parameters", "[planner]") {
  CHECK(bucket_bytes(small_request()) == std::vector<double>{1e6, 5e6, 5e6, 5e6, 4e6});
  ScaleRequest request = small_request();
  request.parameters = 100;
  CHECK(bucket_bytes(request) == std::vector<double>{200});
  request = small_request();
  request.first_bucket = 20'000'000;
  CHECK(bucket_bytes(request) == std::vector<double>{2e7});
}

TEST_CASE("a step of two ranks by hand", "[planner]") {
  // A link of 1 GB/s and 50 us for a call; 2 (n - 1) / n = 1 for two ranks. Backward completes the buckets at
  // 11, 16, 21, 26 and 30 ms; each takes 50 us and its bytes in microseconds a kB: 1.05, then 5.05 three
  // times, 4.05.
  ScaleRequest request = small_request();
  request.cluster = {.name = "",
                     .ranks_per_node = 1,
                     .intra_node = {0, 1e9},
                     .inter_node = {0, 1e9},
                     .call = 50e-6,
                     .source = ""};
  request.ranks = {1, 2};
  const ScalePlan plan = plan_scale(request);
  const double end = 16e-3 + 3 * 5.05e-3 + 4.05e-3;
  const ScalePoint& two = point_at(plan, 2);
  CHECK(two.times.step == Approx(end));
  CHECK(two.times.exposed == Approx(end - 30e-3));
  CHECK(two.times.communicating == Approx(20.25e-3));
  CHECK(two.by_messages);
  CHECK(two.global_batch == 8);
  CHECK(two.throughput == Approx(8 / end));
  CHECK(two.efficiency == Approx(30e-3 / end));
  CHECK(point_at(plan, 1).efficiency == Approx(1));

  request.compression = 4;  // 0.3, 1.3, 1.3, 1.3 and 1.05 ms: all but the last behind backward
  CHECK(point_at(plan_scale(request), 2).times.step == Approx(30e-3 + 1.05e-3));
  request.overlap = false;
  CHECK(point_at(plan_scale(request), 2).times.step == Approx(30e-3 + 5.25e-3));
}

TEST_CASE("a sharded step by hand", "[planner]") {
  // The 20 MB of parameters are gathered in five calls of half the bytes, of 4, 5, 5, 5 and 1 MB: until 2.05,
  // 4.6, 7.15, 9.7 and 10.25 ms. Forward computes with the first from 2.05 on, for 2 ms; with the others from
  // where they arrive on, for 2.5 ms, and with the last at once, until 12.7. Backward takes 20 ms; then
  // scatters of half the bytes, the last bucket's 2.05 ms, and for each of two ranks half of the update.
  ScaleRequest request = small_request();
  request.cluster = {.name = "",
                     .ranks_per_node = 1,
                     .intra_node = {0, 1e9},
                     .inter_node = {0, 1e9},
                     .call = 50e-6,
                     .source = ""};
  request.ranks = {2};
  request.zero = 1;
  request.optimizer = 4e-3;
  CHECK(point_at(plan_scale(request), 2).times.step == Approx(12.7e-3 + 20e-3 + 2.05e-3 + 2e-3));
  request.compression = 4;  // of gradients only
  CHECK(point_at(plan_scale(request), 2).times.step == Approx(12.7e-3 + 20e-3 + 0.55e-3 + 2e-3));
}

TEST_CASE("compute time from the model's FLOPs", "[planner]") {
  ScaleRequest request = small_request();
  request.forward.reset();
  request.backward.reset();
  request.sequence = 1000;
  request.flops = 1e12;
  const ScalePlan plan = plan_scale(request);  // 2 x 10^7 x 4000 / 10^12
  CHECK(plan.forward == Approx(0.08));
  CHECK(plan.backward == Approx(0.16));
}

TEST_CASE("steps of simulated messages and in closed form agree within 1 percent", "[planner]") {
  const auto compare = [](ScaleRequest request) {
    const ScalePlan messages = plan_scale(request);
    request.messages_up_to = 0;
    const ScalePlan closed = plan_scale(request);
    for (std::size_t i = 0; i < request.ranks.size(); ++i) {
      CAPTURE(name_of(request.algorithm), request.jitter.variation, request.zero, request.ranks[i]);
      CHECK(messages.asked.points[i].by_messages);
      CHECK_FALSE(closed.asked.points[i].by_messages);
      CHECK(closed.asked.points[i].times.step == Approx(messages.asked.points[i].times.step).epsilon(0.01));
    }
  };
  ScaleRequest request = small_request();
  for (Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical}) {
    for (double jitter : {0.0, 0.05}) {
      for (int zero : {0, 1, 3}) {
        request.algorithm = algorithm;
        request.jitter.variation = jitter;
        request.zero = zero;
        request.ranks = {8, 64};
        compare(request);
      }
    }
  }
  request.algorithm = Algorithm::ring;
  request.bucket = 20'000'000;
  request.ranks = {512};
  compare(request);  // ZeRO 3 with jitter
}

TEST_CASE("steps of too many messages are in closed form", "[planner]") {
  ScaleRequest request = small_request();
  request.parameters = 1'000'000'000;  // 401 buckets, each of 2 x 511 x 512 messages
  request.ranks = {64, 512};
  const ScalePlan plan = plan_scale(request);
  CHECK(point_at(plan, 64).by_messages);
  CHECK_FALSE(point_at(plan, 512).by_messages);
}

TEST_CASE("a global batch is divided by the ranks", "[planner]") {
  ScaleRequest request = small_request();
  request.global_batch = 250;  // 62.5 micro-batches
  request.optimizer = 3e-3;
  request.ranks = {1, 8, 56, 64};
  const ScalePlan plan = plan_scale(request);
  REQUIRE(plan.asked.points.size() == 3);
  CHECK(point_at(plan, 8).accumulation == 8);
  CHECK(point_at(plan, 8).global_batch == 256);
  CHECK(point_at(plan, 56).accumulation == 2);
  CHECK(point_at(plan, 1).efficiency == Approx(1));
  REQUIRE(plan.notes.size() == 2);
  CHECK_THAT(plan.notes[0], ContainsSubstring("63 micro-batches of 4"));
  CHECK_THAT(plan.notes[1], ContainsSubstring("250 is rounded up"));
  CHECK_THAT(plan.notes[1], ContainsSubstring("252 on 1 rank, 256 on 8 ranks, 448 on 56 ranks"));
  request.ranks = {64};
  CHECK_THROWS_WITH(plan_scale(request), ContainsSubstring("250 samples have no work"));
}

TEST_CASE("larger buckets and trees move the number of ranks at which communication is exposed",
          "[planner]") {
  ScaleRequest request;
  request.parameters = 1'300'000'000;
  request.micro_batch = 2;
  request.sequence = 4096;
  request.cluster = cluster_preset("h100-ndr");
  request.ranks = {8, 100'000};
  const ScalePlan plan = plan_scale(request);
  REQUIRE(plan.others.size() == 3);
  CHECK(plan.others[0].bucket == 8 * request.bucket);
  REQUIRE(plan.asked.exposed_from);
  REQUIRE(plan.others[0].exposed_from);
  CHECK(*plan.others[0].exposed_from > *plan.asked.exposed_from);
  CHECK(plan.others[1].algorithm == Algorithm::tree);
  CHECK_FALSE(plan.others[1].exposed_from);
  // It is the first such number: with one node less communication takes at most 5% of the step.
  request.ranks = {*plan.asked.exposed_from - 8, *plan.asked.exposed_from};
  const ScalePlan around = plan_scale(request);
  CHECK(around.asked.points[0].times.exposed <= 0.05 * around.asked.points[0].times.step);
  CHECK(around.asked.points[1].times.exposed > 0.05 * around.asked.points[1].times.step);
  // Over equal links latency takes over where n l = S / B: here at 26,214,400 / 370.8e9 / 3.4e-6 = 20.8.
  request.cluster.ranks_per_node = 512;
  request.cluster.call = 0;
  request.ranks = {512};
  CHECK(plan_scale(request).asked.latency_from.value_or(0) == 21);
}

TEST_CASE("ZeRO has no tree, and its limits are those of reduce-scatters", "[planner]") {
  ScaleRequest request = small_request();
  request.cluster.ranks_per_node = 1;
  request.ranks = {512};
  request.zero = 1;
  const ScalePlan ring = plan_scale(request);
  request.algorithm = Algorithm::tree;
  const ScalePlan tree = plan_scale(request);
  CHECK(tree.asked.algorithm == Algorithm::ring);
  CHECK(tree.asked.points[0].times.step == ring.asked.points[0].times.step);
  // With (n - 1) (l + S / (n B)) alone: from n = S / (l B) = 5 MB / (14 us x 400 GB/s) = 0.9 on.
  request.cluster.call = 0;
  CHECK(plan_scale(request).asked.latency_from.value_or(0) == 2);
  request.cluster.inter_node.bandwidth = 10e9;  // 35.7
  CHECK(plan_scale(request).asked.latency_from.value_or(0) == 36);
  // 100 us + (n - 1) 14 us > (n - 1) / n 500 us; an all-reduce calls once for twice the steps, and is there
  // at 33.
  request.cluster.call = 100e-6;
  CHECK(plan_scale(request).asked.latency_from.value_or(0) == 29);
  REQUIRE(tree.others.size() == 2);
  CHECK(tree.others[1].algorithm == Algorithm::hierarchical);
  CHECK_THAT(scale_text(request, tree), ContainsSubstring("by ring (a tree has no reduce-scatter), ZeRO 1"));
  CHECK_THAT(scale_text(request, tree), ContainsSubstring("a reduce-scatter of a bucket waits"));
}

TEST_CASE("all messages of a step count, parameters' gathers too", "[planner]") {
  // 201 buckets over 511 x 512 messages an all-gather or reduce-scatter: 0.53e8, and twice that.
  ScaleRequest request = small_request();
  request.parameters = 500'000'000;
  request.ranks = {512};
  request.zero = 1;
  CHECK_FALSE(point_at(plan_scale(request), 512).by_messages);
  request.parameters = 100'000'000;
  request.zero = 3;  // two gathers and a reduce-scatter of 41 buckets, in each of 4 micro-batches: 1.29e8
  request.accumulation = 4;
  CHECK_FALSE(point_at(plan_scale(request), 512).by_messages);
  request.accumulation = 1;
  CHECK(point_at(plan_scale(request), 512).by_messages);
}

namespace {

/// 2 tensor x 2 pipeline ranks of a GPT of 8 layers.
ScaleRequest divided_request() {
  ScaleRequest request;
  request.micro_batch = 2;
  request.sequence = 512;
  request.accumulation = 8;
  request.cluster = cluster_preset("h100-ndr");
  request.ranks = {4, 8, 64};
  ScaleMesh mesh;
  mesh.request.model = {.vocabulary = 20'000, .context = 512, .layers = 8, .heads = 16, .width = 1024};
  mesh.config.mesh = {.tensor = 2, .pipeline = 2};
  request.mesh = mesh;
  return request;
}

}  // namespace

TEST_CASE("plan scale of a mesh has the memory, bytes and time of plan parallel", "[planner]") {
  const int zero = GENERATE(0, 1, 3), context = GENERATE(1, 2);
  CAPTURE(zero, context);
  ScaleRequest request = divided_request();
  request.zero = zero;
  request.messages_up_to = 0;
  request.mesh->config.mesh.context = context;
  const std::int64_t ranks = 8 * context;
  request.ranks = {ranks};
  ParallelRequest same = request.mesh->request;
  same.ranks = ranks;
  same.global_batch = 2 * 8 * 2;
  same.cluster = request.cluster;
  same.bucket_sizes = {.first_bytes = request.first_bucket, .bytes = request.bucket};
  const ParallelConfig config{.mesh = {.tensor = 2, .context = context, .data = 2, .pipeline = 2},
                              .zero = zero,
                              .micro_batch = 2,
                              .micro_batches = 8};
  const ScalePlan plan = plan_scale(request);
  const ScalePoint& point = point_at(plan, ranks);
  const ParallelPlan expected = plan_of(same, config);
  CHECK(point.memory == expected.bytes);
  CHECK(point.bytes_sent == expected.bytes_sent);
  CHECK(point.global_batch == same.global_batch);
  CHECK(point.times.bubble == Approx(step_of(same, config).bubble));
  // The fastest configuration that plan_parallel() finds is at most as slow, as this one is among them.
  same.tensor = same.pipeline = 2;
  same.context = context;
  same.micro_batch = 2;
  same.zero = zero;
  CHECK(plan_parallel(same).plans.front().step <= point.times.step * (1 + 1e-12));
  CHECK_THAT(scale_text(request, plan), ContainsSubstring(context == 1 ? "on 2 tensor x 2 pipeline ranks"
                                                                       : "on 2 tensor x 2 context x 2 pip"));
}

TEST_CASE("plan scale of a mesh by hand", "[planner]") {
  ScaleRequest request = divided_request();
  request.cluster.intra_node = request.cluster.inter_node = {0, 1e30};
  request.cluster.call = 0;
  const ScalePlan plan = plan_scale(request);
  const double forward = plan.forward;  // of the slower stage, which has the output layer
  const double sample = forward_flops(request.mesh->request.model, 1, 512);
  CHECK(forward > 2 * sample / request.flops / 4);
  CHECK(plan.backward == Approx(2 * forward));
  // 8 micro-batches and one more, for which the other stage waits.
  CHECK(point_at(plan, 4).times.step == Approx(9 * 3 * forward));
  CHECK(point_at(plan, 4).times.bubble == Approx(3 * forward));
  CHECK(point_at(plan, 4).global_batch == 16);
  CHECK(point_at(plan, 64).global_batch == 256);
  CHECK(point_at(plan, 64).times.exposed == Approx(0).margin(1e-9));
  CHECK(point_at(plan, 64).throughput == Approx(256 / (9 * 3 * forward)));
  CHECK(point_at(plan, 64).efficiency == Approx(256 / (9 * 3 * forward) * 3 * sample / request.flops / 64));
  // The update takes its share of both times: that of a rank of 4, and of one rank's 8 micro-batches of 2.
  ScaleRequest updated = request;
  updated.optimizer = 0.1;
  CHECK(point_at(plan_scale(updated), 4).efficiency ==
        Approx(16 / (9 * 3 * forward + 0.025) * (3 * sample / request.flops + 0.1 / 16) / 4));

  // Two ranks divide each sequence: half the time, for twice the ranks.
  ScaleRequest divided = request;
  divided.mesh->config.mesh.context = 2;
  divided.ranks = {8, 128};
  const ScalePlan context = plan_scale(divided);
  CHECK(context.forward == Approx(forward / 2));
  CHECK(point_at(context, 8).times.step == Approx(9 * 3 * forward / 2));
  CHECK(point_at(context, 128).global_batch == 256);
  CHECK(point_at(context, 128).efficiency == Approx(point_at(plan, 64).efficiency));

  // Four ranks compute a micro-batch together, so the slowest of four exponential delays counts: 1 + 1/2 +
  // 1/3 + 1/4.
  request.ranks = {4};
  request.accumulation = 1;
  request.steps = 4000;
  request.jitter = {.variation = 0.1, .shape = JitterRequest::Shape::exponential, .seed = 5};
  CHECK(point_at(plan_scale(request), 4).times.computing ==
        Approx(3 * forward * (0.9 + 0.1 * 25.0 / 12)).epsilon(0.005));
}

TEST_CASE("plan scale: a mesh that does not fit is refused", "[planner]") {
  const auto refused = [](const char* message, const auto& change) {
    ScaleRequest request = divided_request();
    change(request);
    CHECK_THROWS_WITH(plan_scale(request), ContainsSubstring(message));
  };
  refused("6 ranks: expected a multiple of the 4 of a model, 2 tensor x 2 pipeline, the nearest is 8",
          [](ScaleRequest& r) { r.ranks = {6}; });
  refused("a model of 8 layers is too small for 16 stages of 1 chunk", [](ScaleRequest& r) {
    r.mesh->config.mesh.pipeline = 16;
    r.ranks = {32};
  });
  refused("3 tensor ranks do not divide 16 heads", [](ScaleRequest& r) {
    r.mesh->config.mesh = {.tensor = 3};
    r.ranks = {3};
  });
  refused("2 tensor ranks do not divide a sequence of 511 tokens", [](ScaleRequest& r) {
    r.mesh->config.sequence_parallel = true;
    r.mesh->request.model.context = 511;
  });
  refused(
      "4 ranks: expected a multiple of the 8 of a model, 2 tensor x 2 context x 2 pipeline, the nearest is 8",
      [](ScaleRequest& r) {
        r.mesh->config.mesh.context = 2;
        r.ranks = {4};
      });
  refused("sequences of 512 tokens have no 6 equal chunks, the nearest length that has is 510",
          [](ScaleRequest& r) {
            r.mesh->config.mesh.context = 3;
            r.ranks = {24};
          });
  refused("2 tensor x 32 context ranks lie across nodes of 6", [](ScaleRequest& r) {
    r.mesh->config.mesh.context = 32;
    r.cluster.ranks_per_node = 6;
    r.ranks = {384};
  });
  const Cluster cluster = cluster_preset("h100-ndr");  // nodes of 8
  CHECK(doubling_ranks(cluster, 100, 4) == std::vector<std::int64_t>{4, 8, 16, 32, 64, 96});
  CHECK(doubling_ranks(cluster, 100, 16) == std::vector<std::int64_t>{16, 32, 64, 96});
  CHECK(doubling_ranks(cluster, 100, 4, 4) == std::vector<std::int64_t>{4, 8, 16, 32, 64, 96});
  CHECK(doubling_ranks(cluster, 100, 8, 8) == std::vector<std::int64_t>{8, 16, 32, 64});
  CHECK(doubling_ranks(cluster, 200, 8, 8) == std::vector<std::int64_t>{8, 16, 32, 64, 128, 192});
  CHECK(doubling_ranks(cluster, 50, 8, 8) == std::vector<std::int64_t>{8, 16, 32});
  CHECK_THROWS_WITH(doubling_ranks(cluster, 100, 6),
                    ContainsSubstring("models of 6 ranks lie across nodes of 8"));
}

TEST_CASE("plan scale: a mesh fits all ranks of the default list", "[planner]") {
  const std::string name = GENERATE("h100-ndr", "v100-edr");
  const int tensor = GENERATE(1, 2, 4), context = GENERATE(1, 2), pipeline = GENERATE(1, 2, 4, 8);
  CAPTURE(name, tensor, context, pipeline);
  ScaleRequest request = divided_request();
  request.messages_up_to = 0;
  request.cluster = cluster_preset(name);
  request.mesh->request.model.layers = 16;
  request.mesh->config.mesh = {.tensor = tensor, .context = context, .pipeline = pipeline};
  request.ranks = doubling_ranks(request.cluster, 10'000, request.mesh->model_ranks(), pipeline);
  CHECK(request.ranks.back() > 4'096);
  CHECK_NOTHROW(plan_scale(request));
}

TEST_CASE("limits are searched among numbers of ranks that have work", "[planner]") {
  ScaleRequest request;
  request.parameters = 1'300'000'000;
  request.micro_batch = 2;
  request.sequence = 4096;
  request.bucket = 200 << 20;
  request.cluster = cluster_preset("h100-ndr");
  request.global_batch = 1024;
  request.ranks = {8, 512, 1024};
  const ScalePlan plan = plan_scale(request);
  CHECK(plan.most == 512);
  CHECK_FALSE(plan.asked.exposed_from);  // 544 without the batch's limit
  CHECK_THAT(scale_text(request, plan), ContainsSubstring("-: not up to 512 ranks"));
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0].substr(0, 27) == "1 number of ranks left out:");
}

TEST_CASE("buckets have at most all gradients, and larger ones are tried only if they differ", "[planner]") {
  ScaleRequest request = small_request();
  request.first_bucket = 100'000'000;
  const ScalePlan one = plan_scale(request);
  CHECK(one.asked.bucket == 20'000'000);
  CHECK_THAT(scale_text(request, one), ContainsSubstring("in 1 bucket of 19.07 MiB, by ring"));
  CHECK(one.others.size() == 2);
  const ScalePlan five = plan_scale(small_request());
  REQUIRE(five.others.size() == 3);
  CHECK(five.others[0].bucket == 19'000'000);  // the rest after the first bucket: less than 8 x 5 MB
}

TEST_CASE("failures leave part of the time useful", "[planner]") {
  ScaleRequest request = small_request();
  request.rank_mtbf_hours = 50'000;
  request.checkpoint = 60;
  request.restart = 300;
  const FailureModel model{.mtbf = 50'000 * 3600.0 / 64, .checkpoint = 60, .restart = 300};
  CHECK(point_at(plan_scale(request), 64).interval == Approx(daly_interval(model)));
  CHECK(point_at(plan_scale(request), 64).goodput == Approx(goodput(model, daly_interval(model))));
  request.checkpoint_interval = 7200;
  CHECK(point_at(plan_scale(request), 64).goodput == Approx(goodput(model, 7200)));
  CHECK(point_at(plan_scale(small_request()), 64).goodput == 1);
  CHECK(plan_scale(request).notes.empty());

  // 64 ranks fail every 56 s, 8 every 450 s: fewer fail seldom enough for checkpoints of 500 s.
  request.rank_mtbf_hours = 1;
  request.checkpoint = 500;
  request.checkpoint_interval = 0;
  request.ranks = {1, 8, 64};
  const ScalePlan plan = plan_scale(request);
  CHECK(point_at(plan, 1).interval > 500);
  REQUIRE(plan.notes.size() == 1);
  CHECK_THAT(plan.notes[0],
             ContainsSubstring(
                 "from 8 ranks on failures are so frequent that the best time between two checkpoints, "));
}

TEST_CASE("a plan of ranks as text, JSON and a picture", "[planner]") {
  ScaleRequest request = small_request();
  request.ranks = doubling_ranks(request.cluster, 100'000);
  CHECK(request.ranks.size() == 18);
  CHECK(doubling_ranks(cluster_preset("v100-edr"), 48) == std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 48});
  Cluster six = request.cluster;
  six.ranks_per_node = 6;
  CHECK(doubling_ranks(six, 100) == std::vector<std::int64_t>{1, 2, 4, 6, 12, 24, 48, 96});
  CHECK(doubling_ranks(six, 5) == std::vector<std::int64_t>{1, 2, 4, 5});
  const ScalePlan plan = plan_scale(request);
  const std::string text = scale_text(request, plan);
  CHECK_THAT(text, ContainsSubstring("10,000,000 x 2 bytes = 19.07 MiB, in 5 buckets"));
  CHECK_THAT(text, ContainsSubstring("100,000"));
  const auto json = nlohmann::json::parse(scale_json(request, plan).dump());
  CHECK(json["asked"]["points"].size() == 18);
  CHECK(json["asked"]["points"][3]["ranks"] == 8);
  CHECK(json["asked"]["points"][3]["step_seconds"] == point_at(plan, 8).times.step);
  CHECK(json["others"].size() == 3);
  const std::string svg = scale_svg(plan);
  CHECK(ringtape::test::xml_error(svg) == "");
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK_THAT(svg, ContainsSubstring("hierarchical, 4.768 MiB buckets"));
  CHECK_THAT(svg, ContainsSubstring(">exposed communication, ms a step</text>"));
}

TEST_CASE("a picture of a single number of ranks", "[planner]") {
  ScaleRequest request = small_request();
  request.cluster.ranks_per_node = 1;
  for (std::int64_t ranks : {1, 10, 512}) {  // 10: the axis begins and ends there
    request.ranks = {ranks};
    const std::string svg = scale_svg(plan_scale(request));
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
    CHECK(svg.find("<circle") != std::string::npos);  // a line of one point would not be seen
    CHECK(svg.find("<path") == std::string::npos);
  }
}

TEST_CASE("scale plans refuse invalid requests", "[planner]") {
  const auto refused = [](const char* why, auto change) {
    ScaleRequest request = small_request();
    change(request);
    CHECK_THROWS_WITH(plan_scale(request), ContainsSubstring(why));
  };
  refused("parameters must be from 1", [](ScaleRequest& r) { r.parameters = 0; });
  refused("micro-batch must be from 1", [](ScaleRequest& r) { r.micro_batch = -1; });
  refused("the micro-batch of 4 is larger than the global batch of 3",
          [](ScaleRequest& r) { r.global_batch = 3; });
  refused("leave one out", [](ScaleRequest& r) { r.global_batch = 64, r.accumulation = 2; });
  refused("given together", [](ScaleRequest& r) { r.backward.reset(); });
  refused("forward must be from 0 to 1e+09 seconds, found nan", [](ScaleRequest& r) { r.forward = NAN; });
  refused("take no time", [](ScaleRequest& r) { r.forward = r.backward = 0; });
  refused("12 ranks do not fill", [](ScaleRequest& r) { r.ranks = {12}; });
  refused("found 2000000", [](ScaleRequest& r) { r.ranks = {2'000'000}; });
  refused("no number of ranks", [](ScaleRequest& r) { r.ranks.clear(); });
  refused("FLOP/s must be above 0", [](ScaleRequest& r) { r.flops = 0; });
  refused("expected at most 1e+09", [](ScaleRequest& r) {
    r.forward.reset(), r.backward.reset();
    r.flops = 1e-300;
  });
  refused("MTBF must be from 1", [](ScaleRequest& r) { r.rank_mtbf_hours = 1e-9, r.checkpoint = 1; });
  refused("compression must be", [](ScaleRequest& r) { r.compression = 0.5; });
  refused("ZeRO has stages 0 to 3", [](ScaleRequest& r) { r.zero = 4; });
  refused("so larger ones", [](ScaleRequest& r) { r.bucket = 100; });
  refused("bucket's bytes must be", [](ScaleRequest& r) { r.bucket = 0; });
  refused("jitter must be", [](ScaleRequest& r) { r.jitter.variation = 2; });
  refused("steps must be", [](ScaleRequest& r) { r.steps = 0; });
  refused("needs checkpoints", [](ScaleRequest& r) { r.rank_mtbf_hours = 1; });
  refused("bandwidth inside of nodes", [](ScaleRequest& r) { r.cluster.intra_node.bandwidth = -1; });
}

}  // namespace ringtape::planner::test
