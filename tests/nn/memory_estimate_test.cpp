#include "nn/memory_estimate.h"

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/memory.h"

namespace ringtape::test {
namespace {

using enum MemoryCategory;

/// The network of the problem, its first layers frozen.
std::shared_ptr<Sequential> make_model(const MlpMemoryProblem& problem) {
  auto model = std::make_shared<Sequential>();
  for (std::size_t i = 0; i + 1 < problem.sizes.size(); ++i) {
    if (i > 0) model->push_back(std::make_shared<ReLU>());
    const auto layer = std::make_shared<Linear>(problem.sizes[i], problem.sizes[i + 1], problem.with_bias);
    layer->requires_grad(static_cast<std::int64_t>(i) >= problem.frozen);
    model->push_back(layer);
  }
  return model;
}

/// The allocator's counts at the peak of the second update.
BytesByCategory measure(const MlpMemoryProblem& problem) {
  const BytesByCategory before = memory_stats({}).live_by_category;
  const std::shared_ptr<Sequential> model = make_model(problem);
  const BytesByCategory own = memory_stats({}).live_by_category;  // the initial values, which go to the arena
  ParameterArena arena(*model, Device{}, problem.compute);
  model->set_recompute(2 * problem.recompute);
  std::unique_ptr<Optimizer> optimizer;
  if (problem.state_per_parameter == 2) {
    optimizer = std::make_unique<Adam>(arena);
  } else {
    SGDOptions options;
    options.momentum = problem.state_per_parameter == 1 ? 0.9 : 0;
    optimizer = std::make_unique<SGD>(arena, options);
  }
  CHECK(own[parameters] == before[parameters]);
  const Tensor targets = zeros({problem.micro_batch}, DType::i64);
  Tensor x;
  {
    const MemoryScope scope(data);
    x = rand({problem.micro_batch, problem.sizes.front()}, problem.compute);
  }
  BytesByCategory peak;
  for (int update = 0; update < 2; ++update) {
    MemoryRecording recording({});
    arena.zero_grad();
    const Tensor loss = cross_entropy((*model)(x), targets);
    loss.backward();  // in a separate statement: the one above holds the logits
    optimizer->step();
    recording.stop();
    peak = highest_activations(recording);
  }
  for (std::size_t i = 0; i < kMemoryCategories; ++i) peak.bytes[i] -= before.bytes[i];
  return peak;
}

void check_estimate(const MlpMemoryProblem& problem) {
  INFO("micro-batch " << problem.micro_batch << ", recompute " << problem.recompute << ", "
                      << problem.sizes.size() - 1 << " layers, " << problem.sizes[1] << " wide");
  const BytesByCategory found = measure(problem), expected = estimate_memory(problem);
  CHECK(found[parameters] == expected[parameters]);
  CHECK(found[gradients] == expected[gradients]);
  CHECK(found[optimizer_state] == expected[optimizer_state]);
  CHECK(found[data] == expected[data]);
  CHECK(found[activations] + found[activation_gradients] ==
        expected[activations] + expected[activation_gradients]);
}

}  // namespace

TEST_CASE("the memory estimate is what the allocator counts", "[memory]") {
  for (std::int64_t micro_batch : {1, 20, 64, 333}) {
    check_estimate({.sizes = {784, 256, 10}, .micro_batch = micro_batch});
    check_estimate({.sizes = {784, 100, 300, 50, 10}, .micro_batch = micro_batch});
    check_estimate({.sizes = {50, 10}, .micro_batch = micro_batch});
  }
  for (std::int64_t state : {0, 1, 2}) {
    check_estimate({.sizes = {33, 65, 7}, .micro_batch = 10, .state_per_parameter = state});
  }
}

TEST_CASE("the memory estimate with recomputation is what the allocator counts", "[memory]") {
  std::vector<std::int64_t> deep(18, 64), uneven;
  for (std::int64_t i = 0; i < 14; ++i) uneven.push_back(32 + 32 * (i * 5 % 7));
  for (std::int64_t layers : {0, 1, 2, 3, 4, 5, 8, 16, 17, 40}) {
    check_estimate({.sizes = deep, .micro_batch = 100, .recompute = layers});
    check_estimate({.sizes = uneven, .micro_batch = 64, .recompute = layers});
  }
}

TEST_CASE("the memory estimate in 16 bits is what the allocator counts", "[memory]") {
  for (DType dtype : {DType::bf16, DType::f16}) {
    for (std::int64_t layers : {0, 2}) {
      check_estimate({.sizes = {784, 256, 10}, .micro_batch = 64, .recompute = layers, .compute = dtype});
      check_estimate(
          {.sizes = {40, 96, 64, 160, 33, 7}, .micro_batch = 50, .recompute = layers, .compute = dtype});
    }
  }
}

TEST_CASE("the memory estimate without biases is what the allocator counts", "[memory]") {
  check_estimate({.sizes = {33, 65, 70, 7}, .micro_batch = 10, .with_bias = false});
}

TEST_CASE("the memory estimate with frozen layers is what the allocator counts", "[memory]") {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (std::int64_t frozen : {1, 2, 3, 4}) {
      check_estimate(
          {.sizes = {40, 96, 64, 160, 33, 7}, .micro_batch = 50, .compute = dtype, .frozen = frozen});
      check_estimate(
          {.sizes = {40, 400, 350, 20, 33, 7}, .micro_batch = 50, .compute = dtype, .frozen = frozen});
    }
  }
}

TEST_CASE("the memory estimate of a forward is what the allocator counts", "[memory]") {
  const NoGrad no_grad;
  for (const bool with_bias : {true, false}) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      const MlpMemoryProblem problem{.sizes = {40, 96, 64, 160, 7},
                                     .micro_batch = 50,
                                     .compute = dtype,
                                     .with_bias = with_bias,
                                     .frozen = 4};
      const BytesByCategory before = memory_stats({}).live_by_category;
      const std::shared_ptr<Sequential> model = make_model(problem);
      const ParameterArena arena(*model, Device{}, dtype);
      const Tensor x = rand({problem.micro_batch, 40}, dtype);
      MemoryRecording recording({});
      (*model)(x);
      recording.stop();
      const BytesByCategory found = highest_activations(recording), expected = estimate_memory(problem);
      CHECK(found[parameters] - before[parameters] == expected[parameters]);
      CHECK(found[gradients] - before[gradients] <= 256);  // the allocator's block of no elements
      CHECK(expected[gradients] + expected[optimizer_state] + expected[activation_gradients] == 0);
      CHECK(found[activations] - before[activations] == expected[activations]);
    }
  }
}

TEST_CASE("the memory estimate by hand", "[memory]") {
  // 784-256-10 at a micro-batch of 64: every product here is a multiple of 64 elements but the bias of 10.
  const BytesByCategory bytes = estimate_memory({.sizes = {784, 256, 10}, .micro_batch = 64});
  CHECK(bytes[parameters] == 4 * (784 * 256 + 256 + 256 * 10 + 64));
  CHECK(bytes[optimizer_state] == 2 * bytes[gradients]);
  CHECK(bytes[activations] == 4 * 64 * (256 + 10));
  CHECK(bytes[activation_gradients] == 4 * 64 * 256);
  CHECK(bytes[data] == 4 * 64 * 784);
  CHECK(bytes.total() == 4 * bytes[parameters] + 4 * 64 * (256 + 10 + 256 + 784));
}

TEST_CASE("the memory estimate refuses invalid problems", "[memory]") {
  CHECK_THROWS_WITH(estimate_memory({.sizes = {3}}), ContainsSubstring("an input and an output size"));
  CHECK_THROWS_WITH(estimate_memory({.sizes = {3, 0}}), ContainsSubstring("each at least 1"));
  CHECK_THROWS_WITH(estimate_memory({.sizes = {3, 1}, .micro_batch = 0}), ContainsSubstring("found 0"));
  CHECK_THROWS_WITH(estimate_memory({.sizes = {3, 1}, .recompute = -2}), ContainsSubstring("segments of -2"));
  CHECK_THROWS_WITH(estimate_memory({.sizes = {3, 1}, .compute = DType::f64}),
                    ContainsSubstring("not in f64"));
  CHECK_THROWS_WITH(estimate_memory({.sizes = {3, 1}, .frozen = 2}), ContainsSubstring("2 of 1 layers"));
  CHECK_THROWS_WITH(estimate_memory({.sizes = {3, 1, 1}, .recompute = 1, .frozen = 1}),
                    ContainsSubstring("frozen layers cannot be combined with recomputation"));
}

TEST_CASE("an arena keeps no memory that its parameters had before", "[memory]") {
  Linear model(500, 700);
  const ParameterArena arena(model, Device{});
  const MemoryStats stats = memory_stats(Device{});
  CHECK(stats.live > 2 * 500 * 700 * sizeof(float));  // values and gradients
  CHECK(stats.reserved - stats.live < 500 * 700 * sizeof(float) / 10);
}

}  // namespace ringtape::test
