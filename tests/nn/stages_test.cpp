#include "nn/stages.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "nn/arena.h"
#include "nn/gpt.h"
#include "nn/gpt_estimate.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

namespace ringtape::test {
namespace {

double cost_of(const std::vector<double>& costs, std::size_t first, std::size_t end) {
  return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(first),
                         costs.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
}

/// The smallest possible largest sum, by trying every division.
double best(const std::vector<double>& costs, std::size_t first, std::size_t parts) {
  if (parts == 1) return cost_of(costs, first, costs.size());
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t end = first + 1; end + parts - 1 <= costs.size(); ++end) {
    smallest = std::min(smallest, std::max(cost_of(costs, first, end), best(costs, end, parts - 1)));
  }
  return smallest;
}

}  // namespace

TEST_CASE("stages: units are divided so that the slowest part is as fast as possible", "[nn][stages]") {
  const std::vector<std::vector<double>> all = {{0, 3, 3, 3, 3, 3, 3, 8},    {1, 1, 1, 1}, {9, 1, 1, 1, 1, 1},
                                                {1, 2, 3, 4, 5, 6, 7, 8, 9}, {0, 0, 0, 5}, {4}};
  for (const std::vector<double>& costs : all) {
    for (std::size_t parts = 1; parts <= costs.size(); ++parts) {
      const std::vector<std::size_t> begins = divide_evenly(costs, parts);
      REQUIRE(begins.size() == parts + 1);
      CHECK(begins.front() == 0);
      CHECK(begins.back() == costs.size());
      double largest = 0;
      for (std::size_t k = 0; k < parts; ++k) {
        REQUIRE(begins[k] < begins[k + 1]);
        largest = std::max(largest, cost_of(costs, begins[k], begins[k + 1]));
      }
      CHECK(largest == best(costs, 0, parts));
    }
  }
  CHECK(error_of([] { divide_evenly({1, 2}, 3); }) == "divide_evenly: 2 costs for 3 parts");
}

TEST_CASE("stages: GPT-2's blocks and output layer are divided by their FLOPs", "[nn][stages]") {
  // Of a token: a block has 12 C^2 weights, 2 FLOPs each, and 2 (T + 1) C of attention; the output layer V C
  // weights.
  const TransformerOptions shape{.vocabulary = 50257, .context = 64, .layers = 12, .heads = 2, .width = 48};
  const double c = 48, block = 24 * c * c + 2 * 65 * c, output = 2 * 50257 * c;
  CHECK(forward_flops(shape, 1, 64) == 64 * (12 * block + output));
  // The output layer is as long as 76 blocks: alone, and the others share the rest.
  for (int stage = 0; stage < 4; ++stage) {
    const auto layers = std::make_shared<LayerFactory>();
    layers->set_stages(std::make_shared<Stages>(PipelinePlace{.stage = stage, .stages = 4}));
    GPT model(shape, layers);
    CHECK_THROWS_WITH(model.make_cache(1, 8), ContainsSubstring("for a rank with all blocks"));
    const bool is_last = stage == 3;
    for (const NamedParameter& parameter : model.named_parameters()) {
      const bool is_of_output = parameter.name.starts_with("ln_f") || parameter.name.starts_with("wte");
      if (is_last) CHECK(is_of_output);
      if (!is_last && stage > 0) CHECK(parameter.name.starts_with("h."));
    }
  }
}

TEST_CASE("stages: no bucket has parameters of two chunks, and tied weights are divided alike",
          "[nn][stages]") {
  const TransformerOptions shape{.vocabulary = 50, .context = 8, .layers = 6, .heads = 2, .width = 16};
  for (const int zero : {1, 2, 3}) {
    INFO("ZeRO " << zero);
    std::vector<ShardSlice> tied;
    for (int stage = 0; stage < 2; ++stage) {
      const auto layers = std::make_shared<LayerFactory>();
      layers->set_stages(std::make_shared<Stages>(PipelinePlace{.stage = stage, .stages = 2, .chunks = 2}));
      const Stages& stages = *layers->stages();
      GPT model(shape, layers);
      const ParameterArena arena(
          model, Device{}, DType::f32,
          {.zero_stage = zero, .rank = 1, .world_size = 3, .bucket_sizes = {}, .stages = &stages});
      for (const ArenaEntry& entry : arena.entries()) {
        // Two units a part, of the embeddings, six blocks, and the output. The second chunks have the last.
        CHECK(stages.begins() == std::vector<std::size_t>{0, 2, 4, 6, 8});
        const bool is_of_second = entry.name.starts_with("h.3") || entry.name.starts_with("h.4") ||
                                  entry.name.starts_with("h.5") ||
                                  (stage == 1 && !entry.name.starts_with("h."));
        CHECK(entry.chunk == (is_of_second ? 1 : 0));
      }
      for (std::size_t b = 0; b < arena.buckets().size(); ++b) {
        const GradientBucket& bucket = arena.buckets()[b];
        for (std::size_t i = 0; i < bucket.entries; ++i) {
          const ArenaEntry& entry = arena.entries()[bucket.first_entry + i];
          CHECK(entry.chunk == arena.entries()[bucket.first_entry].chunk);
          if (entry.name != "wte.weight") continue;
          CHECK(bucket.entries == 1);
          CHECK(entry.offset == bucket.offset);
          tied.push_back(arena.slices()[b]);
          tied.back().offset -= bucket.offset;
        }
      }
    }
    REQUIRE(tied.size() == 2);
    CHECK(tied[0].offset == tied[1].offset);
    CHECK(tied[0].elements == tied[1].elements);
  }
}

}  // namespace ringtape::test
