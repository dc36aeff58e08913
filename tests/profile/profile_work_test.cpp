#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/random.h"
#include "kernels/clip.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "trace/spans.h"

using namespace ringtape;

namespace {

std::int64_t flops_of(const SpanRecording& recording, const std::string& name) {
  std::int64_t sum = 0;
  for (const Span& made : recording.spans()) sum += made.name == name ? made.work.flops : 0;
  return sum;
}

std::int64_t bytes_of(const SpanRecording& recording, const std::string& name) {
  std::int64_t sum = 0;
  for (const Span& made : recording.spans()) sum += made.name == name ? made.work.bytes : 0;
  return sum;
}

/// The FLOPs and bytes of `run` for each element of an arena.
template <class Run>
std::pair<std::int64_t, std::int64_t> flops_and_bytes(Run run, DType dtype = DType::f32) {
  const auto model = std::make_shared<Linear>(64, 3, false);
  ParameterArena arena(*model, {}, dtype);
  sum((*model)(full({2, 64}, 0.25, dtype))).backward();
  SpanRecording recording;
  {
    const SpanScope span(SpanKind::operation, "work");
    run(arena);
  }
  recording.stop();
  const SpanWork& work = recording.spans().back().work;
  CHECK(work.flops % arena.size() == 0);
  return {work.flops / arena.size(), work.bytes / arena.size()};
}

}  // namespace

TEST_CASE("profile: FLOPs and bytes of a linear layer", "[profile]") {
  manual_seed(1);
  const Tensor weight = randn({5, 3}).set_requires_grad(true), bias = randn({5}).set_requires_grad(true);
  const Tensor x = randn({4, 3}).set_requires_grad(true);
  SpanRecording recording;
  sum(linear(x, weight, bias)).backward();
  sum(linear(x.detach(), weight, bias)).backward();
  recording.stop();
  // m = 4, n = 5, k = 3: each product is 2 * 60 FLOPs. x 12, weight 15, bias 5, y 20 elements.
  CHECK(flops_of(recording, "linear") == 2 * 120);
  CHECK(bytes_of(recording, "linear") == 2 * 4 * (12 + 15 + 5 + 20));
  // dx, dweight and dbias, which is 20 additions; then only dweight and dbias, accumulated.
  CHECK(flops_of(recording, "linear backward") == (120 + 120 + 20) + (120 + 20));
  const std::int64_t dx = 20 + 15 + 12, dweight = 20 + 12 + 15, dbias = 20 + 5;
  CHECK(bytes_of(recording, "linear backward") == 4 * (dx + dweight + dbias + dweight + 15 + dbias + 5));
  CHECK(bytes_of(recording, "sum") == 2 * 4 * (20 + 1));
  CHECK(flops_of(recording, "sum") == 2 * 20);
  const auto forward = std::find_if(recording.spans().begin(), recording.spans().end(),
                                    [](const Span& made) { return made.name == "linear"; });
  REQUIRE(forward != recording.spans().end());
  CHECK(forward->shapes == "4x3, 5x3, 5");
}

TEST_CASE("profile: FLOPs and bytes of other operations", "[profile]") {
  manual_seed(1);
  const Tensor a = randn({6, 4}).set_requires_grad(true), b = randn({4, 7}).set_requires_grad(true);
  const Tensor targets = from_vector(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}, {6});
  SpanRecording recording;
  const Tensor y = relu(matmul(a, b));
  cross_entropy(scale(multiply(y, y), 0.5), targets, {.reduction = Reduction::sum}).backward();
  recording.stop();
  CHECK(flops_of(recording, "matmul") == 2 * 6 * 7 * 4);
  CHECK(bytes_of(recording, "matmul") == 4 * (24 + 28 + 42));
  CHECK(flops_of(recording, "matmul backward") == 2 * 2 * 6 * 7 * 4);
  CHECK(bytes_of(recording, "matmul backward") == 4 * 2 * (24 + 28 + 42));
  CHECK(bytes_of(recording, "relu") == 4 * 2 * 42);
  CHECK(bytes_of(recording, "relu backward") == 4 * 3 * 42);
  CHECK(flops_of(recording, "multiply") == 42);
  CHECK(bytes_of(recording, "multiply") == 4 * 3 * 42);
  // The second contribution to y's gradient is added, so it reads the first.
  CHECK(bytes_of(recording, "multiply backward") == 4 * (3 + 4) * 42);
  CHECK(bytes_of(recording, "scale") == 4 * 2 * 42);
  CHECK(bytes_of(recording, "cross_entropy") ==
        4 * 2 * 42 + 8 * 6 + 4);  // fused: the gradient is written too
}

TEST_CASE("profile: FLOPs of norms, and bytes of an embedding's gradient", "[profile]") {
  manual_seed(1);
  const Tensor x = randn({3, 4}).set_requires_grad(true), weight = randn({4}), bias = randn({4});
  const Tensor table = randn({5, 4}).set_requires_grad(true);
  const Tensor tokens = from_vector(std::vector<std::int64_t>{0, 4, 4}, {3});
  SpanRecording recording;
  sum(layer_norm(x, weight, bias)).backward();
  sum(rms_norm(x, weight)).backward();
  const std::int64_t with_bias = flops_of(recording, "layer_norm"),
                     backward = flops_of(recording, "layer_norm backward");
  sum(layer_norm(x, weight, Tensor())).backward();
  sum(embedding(tokens, table)).backward();
  const std::int64_t written = bytes_of(recording, "embedding backward");
  sum(embedding(tokens, table)).backward();
  recording.stop();
  // Mean, difference, square and sum, scale, weight, bias; rms_norm has neither a mean nor a bias.
  CHECK(with_bias == 7 * 12);
  CHECK(flops_of(recording, "layer_norm") - with_bias == 6 * 12);
  CHECK(flops_of(recording, "rms_norm") == 4 * 12);
  // Difference, scale; two for the weight's gradient, one for the bias's; dy * weight and the two sums of it,
  // 4; the mean, the product and its difference, scale. rms_norm has no difference, bias, sum or mean of dy *
  // weight.
  CHECK(backward == 13 * 12);
  CHECK(flops_of(recording, "layer_norm backward") - backward == 12 * 12);
  CHECK(flops_of(recording, "rms_norm backward") == 9 * 12);
  // Gradients are read, and added to rows of the table, which is zeroed the first time.
  CHECK(written == 4 * (3 * 12 + 20));
  CHECK(bytes_of(recording, "embedding backward") - written == 4 * 3 * 12);
}

TEST_CASE("profile: FLOPs and bytes of an optimizer's step, by element", "[profile]") {
  const auto step = [](auto make) {
    return flops_and_bytes([&](ParameterArena& arena) { make(arena).step(); });
  };
  const auto bytes = [](int reads, int writes) { return std::int64_t{4} * (reads + writes); };
  const auto sgd = [&](const SGDOptions& options) {
    return step([&](ParameterArena& arena) { return SGD(arena, options); });
  };
  // Value, gradient and both moments are read; all but the gradient are written.
  CHECK(step([](ParameterArena& arena) { return AdamW(arena); }) == std::pair(14l, bytes(4, 3)));
  CHECK(sgd({.learning_rate = 0.1}) == std::pair(4l, bytes(2, 1)));
  CHECK(sgd({.learning_rate = 0.1, .momentum = 0.9}) == std::pair(7l, bytes(3, 2)));
  CHECK(sgd({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}) == std::pair(9l, bytes(3, 2)));
  // LAMB's and LARS's norms need a second pass over their inputs.
  CHECK(step([](ParameterArena& arena) { return Lamb(arena); }) == std::pair(25l, bytes(4 + 3, 2 + 1)));
  CHECK(step([](ParameterArena& arena) { return Lars(arena); }) == std::pair(11l, bytes(2 + 3, 2)));
  // A copy in 16 bits, and a factor for every gradient.
  const auto clipped = [](ParameterArena& arena) {
    arena.set_clip_factor(&static_cast<const GradientNorm*>(arena.norm_result().raw())->clip_factor);
    AdamW(arena).step();
  };
  CHECK(flops_and_bytes(clipped, DType::bf16) == std::pair(15l, bytes(4, 3) + 2));
}

TEST_CASE("profile: FLOPs and bytes of clipping, by element", "[profile]") {
  const auto norm = [](double norm_type) {
    return flops_and_bytes(
        [=](ParameterArena& arena) { clip_grad_norm(arena, 1, {.norm_type = norm_type}); });
  };
  CHECK(norm(2) == std::pair(2l, 4l));
  CHECK(norm(1) == std::pair(1l, 4l));
  CHECK(norm(INFINITY) == std::pair(0l, 4l));
  CHECK(norm(3) == std::pair(2l, 8l));  // the largest, and then the sum
  CHECK(flops_and_bytes([](ParameterArena& arena) { clip_grad_value(arena, 0.5); }) == std::pair(0l, 8l));
  // The norm, and then the scaled gradients.
  CHECK(flops_and_bytes([](ParameterArena& arena) { clip_grad_norm_now(arena, 1); }) == std::pair(3l, 12l));
}

TEST_CASE("profile: the norm of a sharded arena reads this rank's shard", "[profile]") {
  const int stage = GENERATE(1, 2);
  Linear model(64, 4, false);
  ParameterArena arena(model, {}, DType::f32, {.zero_stage = stage, .rank = 1, .world_size = 2});
  const auto alone = [](const Tensor&) {};
  arena.set_shard_exchange({.sum = alone, .max = alone, .all_gather = alone, .start_all_gather = alone});
  SpanRecording recording;
  {
    const SpanScope span(SpanKind::operation, "work");
    clip_grad_norm(arena, 1);
  }
  recording.stop();
  CHECK(flops_of(recording, "work") == 2 * 64 * 4 / 2);
  CHECK(bytes_of(recording, "work") == 4 * 64 * 4 / 2);
}
