// causal_self_attention on the tape. The kernels' own tests are in tests/kernels/attention_test.cpp.
#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "autograd/recompute.h"
#include "autograd/tape.h"
#include "core/memory.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

struct Sizes {
  std::int64_t batch, tokens;
  int heads, kv_heads;
  std::int64_t width;
  Shape shape() const { return {batch, tokens, (heads + 2 * kv_heads) * width}; }
};

/// The result by the definition, in double, for qkv packed as causal_self_attention reads it.
std::vector<double> by_definition(const std::vector<double>& qkv, const Sizes& s) {
  const std::int64_t row = s.shape()[2];
  std::vector<double> out;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t i = 0; i < s.tokens; ++i) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::int64_t kv = s.heads + h / (s.heads / s.kv_heads);
        const auto at = [&](std::int64_t token, std::int64_t head, std::int64_t d) {
          return qkv[static_cast<std::size_t>((b * s.tokens + token) * row + head * s.width + d)];
        };
        std::vector<double> weights;
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < s.width; ++d) score += at(i, h, d) * at(j, kv, d);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.width))));
          sum += weights.back();
        }
        for (std::int64_t d = 0; d < s.width; ++d) {
          double value = 0;
          for (std::int64_t j = 0; j <= i; ++j) {
            value += weights[static_cast<std::size_t>(j)] / sum * at(j, kv + s.kv_heads, d);
          }
          out.push_back(value);
        }
      }
    }
  }
  return out;
}

std::vector<double> gradient_of(const Tensor& y, const Tensor& x, std::uint64_t seed) {
  Tape::current().backward(y,
                           tensor_of(random_doubles(y.elements(), seed), y.shape(), y.dtype(), y.device()));
  const std::vector<double> gradient = x.grad().to_doubles();
  x.autograd->grad_written = false;
  return gradient;
}

}  // namespace

TEST_CASE("causal_self_attention: the result and its gradient", "[ops]") {
  for (const Sizes& s : {Sizes{2, 5, 2, 2, 3}, Sizes{1, 33, 1, 1, 4}, Sizes{1, 9, 4, 2, 2},
                         Sizes{2, 3, 6, 1, 1}, Sizes{1, 67, 1, 1, 17}, Sizes{3, 1, 2, 1, 2}}) {
    INFO(to_string(s.shape()) << ", heads " << s.heads << ", kv_heads " << s.kv_heads);
    const std::vector<double> values = random_doubles(s.shape().elements(), 3, -2, 2);
    const Tensor x = tensor_of(values, s.shape(), DType::f64).set_requires_grad(true);
    const auto attention = [&](const std::vector<Tensor>& in) {
      return causal_self_attention(in[0], s.heads, s.kv_heads);
    };
    check_close(attention({x}).to_doubles(), by_definition(values, s), 1e-13, 1e-14);
    Tape::current().clear();
    GradcheckOptions options;
    options.absolute_tolerance = options.relative_tolerance = 1e-7;
    options.every = 1 + x.elements() / 200;
    const GradcheckResult result = gradcheck(attention, {x}, options);
    INFO(to_string(result));
    CHECK(result.passed());
  }
}

TEST_CASE("causal_self_attention: the gradient with dropout", "[ops]") {
  const Sizes s{2, 19, 2, 1, 3};
  const Tensor x = tensor_of(random_doubles(s.shape().elements(), 3, -2, 2), s.shape(), DType::f64);
  const AttentionOptions options{.dropout = 0.4, .seed = 9, .counter = 3};
  const GradcheckResult result = gradcheck(
      [&](const std::vector<Tensor>& in) { return causal_self_attention(in[0], 2, 1, options); },
      {Tensor(x).set_requires_grad(true)}, {.absolute_tolerance = 1e-7, .relative_tolerance = 1e-7});
  INFO(to_string(result));
  CHECK(result.passed());
}

TEST_CASE("causal_self_attention: dropout drops its share, differently for each counter", "[ops]") {
  // All weights of the last token are 1 / T, and all values 1: its result is the share that is kept, over
  // 0.7.
  constexpr std::int64_t kTokens = 512, kHeads = 8;
  std::vector<double> values(kTokens * kHeads * 3, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % (3 * kHeads) >= 2 * kHeads ? 1 : 0;
  const Tensor x = tensor_of(values, {1, kTokens, 3 * kHeads});
  std::vector<double> kept;
  for (std::uint64_t counter = 0; counter < 4; ++counter) {
    const Tensor y = causal_self_attention(x, kHeads, kHeads, {.dropout = 0.3, .counter = counter});
    const std::vector<double> all = y.to_doubles();
    kept.insert(kept.end(), all.end() - kHeads, all.end());
  }
  // The standard deviation of a mean of 512 such values is sqrt(0.3 / 0.7 / 512) = 0.029.
  double mean = 0;
  for (const double value : kept) {
    CHECK(std::abs(value - 1) < 5 * 0.029);
    mean += value / static_cast<double>(kept.size());
  }
  CHECK(std::abs(mean - 1) < 5 * 0.029 / std::sqrt(32.0));
  std::sort(kept.begin(), kept.end());
  CHECK(std::unique(kept.begin(), kept.end()) - kept.begin() > 16);  // counters and heads differ
}

TEST_CASE("causal_self_attention: no batch and no token", "[ops]") {
  for (const Shape& shape : {Shape{0, 4, 6}, Shape{2, 0, 6}}) {
    const Tensor x = leaf({}, shape);
    const Tensor y = causal_self_attention(x, 2, 2);
    CHECK(y.shape() == shape.with(2, 2));
    CHECK(gradient_of(y, x, 1).empty());
  }
}

TEST_CASE("causal_self_attention: gradients of two uses add up", "[ops]") {
  const Sizes s{2, 35, 2, 1, 8};
  const Tensor x = leaf(random_doubles(s.shape().elements(), 1), s.shape());
  const std::vector<double> once = gradient_of(causal_self_attention(x, 2, 1), x, 5);
  const std::vector<double> twice =
      gradient_of(add(causal_self_attention(x, 2, 1), causal_self_attention(x, 2, 1)), x, 5);
  for (std::size_t i = 0; i < once.size(); ++i) REQUIRE(twice[i] == 2 * once[i]);
}

TEST_CASE("causal_self_attention: equal bits in two runs and in a recomputed segment", "[ops]") {
  const Sizes s{2, 70, 3, 3, 16};
  const Tensor x = leaf(random_doubles(s.shape().elements(), 1), s.shape());
  const auto segment = [](const std::vector<Tensor>& in) {
    return causal_self_attention(scale(in[0], 1.5), 3, 3, {.dropout = 0.1, .seed = 4, .counter = 2});
  };
  const std::vector<double> first = gradient_of(segment({x}), x, 5);
  CHECK(gradient_of(segment({x}), x, 5) == first);
  CHECK(gradient_of(recompute(segment, {x}), x, 5) == first);
}

TEST_CASE("causal_self_attention: memory grows with the number of tokens, not with its square", "[ops]") {
  const Sizes s{1, 2048, 1, 1, 8};
  const Tensor x = leaf(random_doubles(s.shape().elements(), 1), s.shape());
  const Tensor gradient = tensor_of(random_doubles(2048 * 8, 1), {1, 2048, 8});
  const std::size_t before = memory_stats({}).live;
  reset_peak_memory({});
  const Tensor y = causal_self_attention(x, 1, 1);
  CHECK(memory_stats({}).live - before == 4 * 2048 * (8 + 1));  // the result and a statistic for each token
  Tape::current().backward(y, gradient);
  // At most these, the gradients of the result and of x, and delta.
  CHECK(memory_stats({}).peak - before <= 4 * 2048 * (8 + 1 + 8 + 3 * 8 + 1));
}

TEST_CASE("causal_self_attention: errors name the inputs that do not fit", "[ops]") {
  const Tensor x = leaf(random_doubles(24, 1), {1, 2, 12});
  CHECK(error_of([&] { causal_self_attention(x, 3, 2); }) ==
        "causal_self_attention: expected heads in a multiple of kv_heads, and at least 1 of both, found 3 "
        "and 2");
  CHECK(
      error_of([&] { causal_self_attention(x, 5, 5); }) ==
      "causal_self_attention: expected qkv [B, T, (heads + 2 kv_heads) D] with 5 heads and 5 kv_heads, found "
      "f32[1, 2, 12] on cpu");
  CHECK(
      error_of([&] {
        causal_self_attention(leaf(random_doubles(387, 1), {1, 1, 387}), 1, 1);
      }) ==
      "causal_self_attention: expected heads of at most 128 elements, found 129 in qkv f32[1, 1, 387] on cpu "
      "with 1 heads and 1 kv_heads");
  CHECK(error_of([&] { causal_self_attention(x, 2, 2, {.dropout = 1}); }) ==
        "causal_self_attention: dropout must be in [0, 1), found 1");
  CHECK(error_of([&] { causal_self_attention(x, 0, 0); }) ==
        "causal_self_attention: expected heads in a multiple of kv_heads, and at least 1 of both, found 0 "
        "and 0");
  CHECK(error_of([&] { causal_self_attention(to(x, DType::i32), 2, 2); }) ==
        "causal_self_attention: expected a floating tensor, found i32[1, 2, 12] on cpu");
  CHECK(
      error_of([&] {
        causal_self_attention(view(x, {2, 12}), 2, 2);
      }) ==
      "causal_self_attention: expected qkv [B, T, (heads + 2 kv_heads) D] with 2 heads and 2 kv_heads, found "
      "f32[2, 12] on cpu");
}

TEST_CASE("cached_self_attention: token by token gives the results of the whole sequence", "[ops]") {
  const NoGrad no_grad;
  const Sizes s{2, 11, 4, 2, 8};
  const std::vector<double> qkv = random_doubles(s.shape().elements(), 1);
  const std::int64_t row = s.shape()[2], out_row = s.heads * s.width;
  const std::vector<double> expected = by_definition(qkv, s);
  const Tensor cache = full({s.batch, s.tokens + 2, 2 * s.kv_heads * s.width}, NAN, DType::f64);
  std::int64_t length = 0;
  for (const std::int64_t tokens : {5, 1, 2, 3}) {
    std::vector<double> step, wanted;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const auto tokens_of = [&](const std::vector<double>& all, std::int64_t columns) {
        const auto first = all.begin() + (b * s.tokens + length) * columns;
        return std::vector<double>(first, first + tokens * columns);
      };
      for (const double value : tokens_of(qkv, row)) step.push_back(value);
      for (const double value : tokens_of(expected, out_row)) wanted.push_back(value);
    }
    const Tensor y = cached_self_attention(tensor_of(step, {s.batch, tokens, row}, DType::f64, {}), s.heads,
                                           s.kv_heads, cache, length);
    check_close(y.to_doubles(), wanted, 0, 1e-12);
    length += tokens;
  }
}

TEST_CASE("cached_self_attention: errors name the inputs that do not fit", "[ops]") {
  const Tensor x = tensor_of(random_doubles(24, 1), {1, 2, 12}, DType::f32, {});
  const Tensor cache = zeros({1, 3, 8});
  CHECK(error_of([&] {
          cached_self_attention(x, 2, 2, zeros({1, 3, 4}), 0);
        }) ==
        "cached_self_attention: expected a cache f32 [1, capacity, 8] on cpu, found f32[1, 3, 4] on cpu");
  CHECK(error_of([&] { cached_self_attention(x, 1, 1, cache, 2); }) ==
        "cached_self_attention: 2 tokens and 2 more exceed the cache's 3");
  CHECK(error_of([&] {
          cached_self_attention(leaf(random_doubles(24, 1), {1, 2, 12}), 1, 1, cache, 0);
        }) == "cached_self_attention: has no backward: call it under NoGrad");
}

GPU_TEST_CASE("causal_self_attention: the GPU gives the results of the CPU", "[ops]") {
  const Sizes s{2, 131, 4, 2, 48};
  const auto run = [&](Device device) {
    const Tensor x = tensor_of(random_doubles(s.shape().elements(), 1), s.shape(), DType::f32, device)
                         .set_requires_grad(true);
    const Tensor y = causal_self_attention(x, s.heads, s.kv_heads);
    return std::pair{y.to_doubles(), gradient_of(y, x, 2)};
  };
  const auto [y, dx] = run({});
  const auto [gpu_y, gpu_dx] = run(Device::parse("cuda"));
  // The order of the sums is the same; exp differs by some units in the last place.
  check_close(gpu_y, y, 0, 1e-6);
  check_close(gpu_dx, dx, 0, 1e-5 * largest_of(dx));
}

}  // namespace ringtape::test
