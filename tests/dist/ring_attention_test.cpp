// Attention over tokens that ranks divide, compared with one rank's.
#include "dist/ring_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/tape.h"
#include "core/memory.h"
#include "nn/memory_estimate.h"
#include "tests/dist/divided_models.h"
#include "tests/dist/ranks.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "trace/spans.h"

namespace ringtape::test {
namespace {

/// A call of attention: qkv and the gradient of its result.
struct Attention {
  std::int64_t batch, chunk;  // tokens of a chunk
  int heads, kv_heads;
  std::int64_t width;
  double dropout = 0;

  std::int64_t columns() const { return (heads + 2 * kv_heads) * width; }
  AttentionOptions options() const { return {.dropout = dropout, .seed = 5, .counter = 3}; }
  std::int64_t tokens(const Communicator& comm) const { return 2 * chunk * comm.size(); }
  std::string text() const {
    return fmt::format("{} x 2 chunks of {}, {}/{} heads of {}, dropout {}", batch, chunk, heads, kv_heads,
                       width, dropout);
  }
  std::vector<double> qkv(std::int64_t tokens) const {
    return random_doubles(batch * tokens * columns(), 1, -2, 2);
  }
  std::vector<double> dout(std::int64_t tokens) const {
    return random_doubles(batch * tokens * heads * width, 2);
  }
};

struct Result {
  std::vector<double> out, gradient;
};

/// Forward and backward of `attend` for these tokens.
template <class Attend>
Result run(const Attention& call, const std::vector<double>& qkv, const std::vector<double>& dout,
           DType dtype, Device device, const Attend& attend) {
  const TapeScope scope;
  const std::int64_t tokens = std::ssize(qkv) / (call.batch * call.columns());
  const DType of_leaf = dtype == DType::bf16 ? DType::f32 : dtype;
  Tensor x = tensor_of(qkv, {call.batch, tokens, call.columns()}, of_leaf, device).set_requires_grad(true);
  const Tensor out = attend(to(x, dtype));
  sum(multiply(out, tensor_of(dout, out.shape(), dtype, device))).backward();
  return {out.to_doubles(), x.grad().to_doubles()};
}

Result on_one_rank(const Attention& call, const std::vector<double>& qkv, const std::vector<double>& dout,
                   DType dtype) {
  return run(call, qkv, dout, dtype, Device{}, [&](const Tensor& x) {
    return causal_self_attention(x, call.heads, call.kv_heads, call.options());
  });
}

Result in_ring(const Attention& call, const std::shared_ptr<Communicator>& comm, DType dtype) {
  const std::int64_t own = 2 * call.chunk, tokens = own * comm->size();
  const std::shared_ptr<const ContextPart> part = context_part_over(comm);
  const auto of_rank = [&](const std::vector<double>& x) {
    return own_of(x, call.batch, tokens, part->runs(own));
  };
  return run(
      call, of_rank(call.qkv(tokens)), of_rank(call.dout(tokens)), dtype, comm->device(),
      [&](const Tensor& qkv) { return part->attention(qkv, call.heads, call.kv_heads, call.options()); });
}

/// This rank's part of a result for all tokens.
Result own_result(const Result& all, const Attention& call, const Communicator& comm) {
  const std::int64_t tokens = call.tokens(comm);
  const std::vector<TokenRun> runs = ContextPart{comm.rank(), comm.size(), nullptr}.runs(2 * call.chunk);
  return {own_of(all.out, call.batch, tokens, runs), own_of(all.gradient, call.batch, tokens, runs)};
}

/// The values of all ranks' tokens, of which this rank has `own`.
std::vector<double> of_all_ranks(const std::vector<double>& own, const Attention& call, Communicator& comm) {
  const std::int64_t tokens = call.tokens(comm), n = std::ssize(own) * comm.size();
  std::vector<std::size_t> places(static_cast<std::size_t>(n));
  std::iota(places.begin(), places.end(), 0);
  places =
      own_of(places, call.batch, tokens, ContextPart{comm.rank(), comm.size(), nullptr}.runs(2 * call.chunk));
  std::vector<double> all(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < own.size(); ++i) all[places[i]] = own[i];
  const Tensor sum = tensor_of(all, {n}, DType::f32, comm.device());
  comm.all_reduce(sum, ReduceOp::sum).wait();
  return sum.to_doubles();
}

/// How far queries' and keys' gradients in bf16 may be from the exact ones; 0 for values. They are sums of
/// scale * weight * (dp - delta) times a key or a query: each at most 2 C addends, whose sum of magnitudes is
/// rounded by `most` of itself. And `delta`, dout times the result, has the result's errors, `off`.
std::vector<double> bounds(const Attention& call, const std::vector<double>& qkv,
                           const std::vector<double>& dout, const std::vector<double>& out,
                           const std::vector<double>& off, double most) {
  const auto width = static_cast<std::size_t>(call.width), heads = static_cast<std::size_t>(call.heads),
             kv_heads = static_cast<std::size_t>(call.kv_heads), row = (heads + 2 * kv_heads) * width;
  const std::size_t batch = static_cast<std::size_t>(call.batch), tokens = qkv.size() / (batch * row);
  const double scale = 1 / std::sqrt(static_cast<double>(width)), kept = 1 / (1 - call.dropout);
  const auto dot = [&](const std::vector<double>& a, std::size_t i, const std::vector<double>& b,
                       std::size_t k) { return std::inner_product(&a[i], &a[i] + width, &b[k], 0.0); };
  std::vector<double> allowed(qkv.size());
  for (std::size_t all = 0; all < batch * heads * tokens; ++all) {  // queries
    const std::size_t b = all / (heads * tokens), head = all / tokens % heads, i = all % tokens;
    const std::size_t q = (b * tokens + i) * row + head * width,
                      result = ((b * tokens + i) * heads + head) * width;
    const auto key = [&](std::size_t j) {
      return (b * tokens + j) * row + (heads + head * kv_heads / heads) * width;
    };
    std::vector<double> weights(i + 1);
    for (std::size_t j = 0; j <= i; ++j) weights[j] = std::exp(scale * dot(qkv, q, qkv, key(j)));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const double delta = std::abs(dot(dout, result, out, result)),
                 delta_off = std::abs(dot(dout, result, off, result));
    for (std::size_t j = 0; j <= i; ++j) {
      const double dp = kept * std::abs(dot(dout, result, qkv, key(j) + kv_heads * width));
      const double by = scale * weights[j] / sum * (most * (dp + delta) + (1 + most) * delta_off);
      for (std::size_t d = 0; d < width; ++d) {
        allowed[q + d] += by * std::abs(qkv[key(j) + d]);
        allowed[key(j) + d] += by * std::abs(qkv[q + d]);
      }
    }
  }
  return allowed;
}

/// The most by which |found - expected| exceeds what is allowed; infinity where it is NaN.
double excess(const std::vector<double>& found, const std::vector<double>& expected,
              const std::vector<double>& allowed) {
  REQUIRE_FALSE(expected.empty());
  REQUIRE((found.size() == expected.size() && allowed.size() == expected.size()));
  double most = -INFINITY;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double by = std::abs(found[i] - expected[i]) - allowed[i];
    if (!(by <= most)) most = std::isnan(by) ? INFINITY : by;
  }
  return most;
}

std::vector<Attention> calls() {
  // One token and an odd number of them in a chunk, several tiles, grouped queries, odd heads, masks.
  std::vector<Attention> all = {{2, 1, 2, 2, 3}, {1, 7, 4, 2, 5}, {2, 12, 4, 1, 8, 0.3}};
  if (kSlowKernels) return all;
  all.insert(all.end(), {{1, 150, 2, 1, 20}, {2, 64, 1, 1, 16, 0.5}, {1, 132, 3, 3, 128, 0.1}});
  return all;
}

}  // namespace

TEST_CASE("ring attention: results and gradients are those of one rank", "[dist][context]") {
  const auto comm = this_run();
  for (const Attention& call : calls()) {
    INFO(call.text());
    const std::int64_t tokens = call.tokens(*comm);
    const Result exact =
        own_result(on_one_rank(call, call.qkv(tokens), call.dout(tokens), DType::f64), call, *comm);
    if (comm->device().is_cpu()) {
      const Result found = in_ring(call, comm, DType::f64);
      CHECK(largest_difference(found.out, exact.out) < 1e-13);
      CHECK(largest_difference(found.gradient, exact.gradient) < 1e-12);
    }
    const Result found = in_ring(call, comm, DType::f32), again = in_ring(call, comm, DType::f32);
    CHECK(found.out == again.out);  // the same bits
    CHECK(found.gradient == again.gradient);
    CHECK(largest_difference(found.out, exact.out) < 2e-6);
    CHECK(largest_difference(found.gradient, exact.gradient) < 4e-6);
  }
}

TEST_CASE("ring attention: bf16 rounds a result once for each chunk of keys", "[dist][context]") {
  const auto comm = this_run();
  for (const Attention& call : calls()) {
    INFO(call.text());
    const std::int64_t tokens = call.tokens(*comm);
    const auto rounded = [](const std::vector<double>& x) {
      return tensor_of(x, {std::ssize(x)}, DType::bf16).to_doubles();
    };
    const std::vector<double> qkv = rounded(call.qkv(tokens)), dout = rounded(call.dout(tokens));
    const Result whole = on_one_rank(call, qkv, dout, DType::f64);
    const Result exact = own_result(whole, call, *comm), found = in_ring(call, comm, DType::bf16);
    // A result is a mean of values (with dropout, of some of them times 1 / (1 - p)). The mean so far is
    // rounded for each of at most 2 C chunks, and its weight does not grow after that.
    const double most = std::pow(1 + 0x1p-8, 2 * comm->size()) - 1, largest = 2 / (1 - call.dropout);
    const std::vector<double> of_results(exact.out.size(), most * largest);
    CHECK(excess(found.out, exact.out, of_results) <= 1e-5);
    std::vector<double> off = of_all_ranks(found.out, call, *comm);
    for (std::size_t i = 0; i < off.size(); ++i) off[i] -= whole.out[i];
    // A value's gradient is a sum of at most 2 C addends in bf16. The sum of their magnitudes is the gradient
    // for magnitudes of dout.
    std::vector<double> magnitudes = dout;
    for (double& value : magnitudes) value = std::abs(value);
    const Result of_magnitudes = on_one_rank(call, qkv, magnitudes, DType::f64);
    std::vector<double> allowed = bounds(call, qkv, dout, whole.out, off, most);
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      const bool is_value =
          static_cast<std::int64_t>(i) % call.columns() >= (call.heads + call.kv_heads) * call.width;
      if (is_value) allowed[i] = most * of_magnitudes.gradient[i];
    }
    const Result bound = own_result({whole.out, allowed}, call, *comm);
    CHECK(excess(found.gradient, exact.gradient, bound.gradient) <= 1e-5);
    // The bound is so close that zeros for the rank's later tokens are not within it.
    for (const auto& [first, end] : {std::pair(0, call.heads), {call.heads, call.heads + call.kv_heads}}) {
      std::vector<double> without = exact.gradient;
      for (std::size_t i = 0; i < without.size(); ++i) {
        const auto token = static_cast<std::int64_t>(i) / call.columns() % (2 * call.chunk);
        const auto head = static_cast<std::int64_t>(i) % call.columns() / call.width;
        if (token >= call.chunk && head >= first && head < end) without[i] = 0;
      }
      CHECK(excess(without, exact.gradient, bound.gradient) > 1e-5);
    }
  }
}

TEST_CASE("differences of NaN are infinite, and those of equal values 0", "[dist]") {
  CHECK(largest_difference({1, 2}, {1, 2}) == 0);
  CHECK(largest_difference({1, 1.5}, {1, 2}) == 0.25);
  CHECK(std::isinf(largest_difference({NAN, 2}, {1, 2})));
  CHECK(std::isinf(largest_difference({1, NAN}, {1, 2})));
  CHECK(std::isinf(largest_difference({NAN, 7}, {1, 2})));
  CHECK(std::isinf(difference({{"a", {NAN}}, {"b", {1}}}, {{"a", {1}}, {"b", {1}}})));
  CHECK(excess({1, 2.5}, {1, 2}, {0, 0.25}) == 0.25);
  CHECK(excess({1, 2}, {1, 2}, {1, 0.5}) == -0.5);
  CHECK(std::isinf(excess({1, NAN, 2}, {1, 2, 2}, {1, 1, 1})));
}

TEST_CASE("ring attention: gradients are added to an existing gradient", "[dist][context]") {
  const auto comm = this_run();
  const Attention call{1, 4, 2, 1, 4};
  const std::int64_t own = 8, tokens = own * comm->size();
  const auto part = context_part_over(comm);
  const auto both = [&](const Tensor& qkv, const auto& attend) {
    return add(attend(qkv, 2, 1, call.options()), scale(attend(qkv, 2, 1, call.options()), 2));
  };
  const std::vector<double> x = own_of(call.qkv(tokens), 1, tokens, part->runs(own)),
                            dy = own_of(call.dout(tokens), 1, tokens, part->runs(own));
  const Result one = in_ring(call, comm, DType::f32);
  const Result three = run(call, x, dy, DType::f32, comm->device(),
                           [&](const Tensor& qkv) { return both(qkv, part->attention); });
  std::vector<double> expected = one.gradient;
  for (double& value : expected) value *= 3;
  CHECK(largest_difference(three.gradient, expected) < 1e-6);
}

TEST_CASE(
    "ring attention: sends C - 1 shards of keys and values forward, 2 C - 1 backward, and holds 2 and 4",
    "[dist][context][bytes]") {
  const auto comm = this_run();
  const std::uint64_t ranks = static_cast<std::uint64_t>(comm->size());
  const Attention call{2, 24, 4, 2, 8};
  const std::size_t shard = 2 * 48 * 2 * 2 * 8 * 4, stats = allocated_bytes(2 * 48 * 4, DType::f32);
  const Device device = comm->device();
  const std::int64_t own = 48, tokens = own * comm->size();
  const auto part = context_part_over(comm);
  const std::vector<double> x = own_of(call.qkv(tokens), 2, tokens, part->runs(own));
  const auto peak_above = [&](std::size_t live) { return memory_stats(device).peak - live; };
  const TapeScope scope;
  Tensor qkv = tensor_of(x, {2, own, call.columns()}, DType::f32, device).set_requires_grad(true);
  Traffic before = comm->traffic();
  std::size_t live = memory_stats(device).live;
  reset_peak_memory(device);
  const Tensor out = part->attention(qkv, 4, 2, call.options());
  CHECK(peak_above(live) == 2 * shard + stats + allocated_bytes(out.elements(), DType::f32));
  CHECK(comm->traffic().sent - before.sent == (ranks - 1) * shard);
  const Tensor loss = sum(out);
  before = comm->traffic();
  live = memory_stats(device).live;
  reset_peak_memory(device);
  loss.backward();
  const std::size_t of_out = allocated_bytes(out.elements(), DType::f32),
                    of_qkv = allocated_bytes(qkv.elements(), DType::f32);
  CHECK(peak_above(live) <= 4 * shard + stats + of_out + of_qkv + 256);  // and the gradient of the loss
  if (ranks > 1) CHECK(comm->traffic().sent - before.sent == (2 * ranks - 1) * shard);
}

TEST_CASE("ring attention: counts the rank's part of two matrix products forward and five backward",
          "[dist][context]") {
  const auto comm = this_run();
  const Attention call{2, 24, 4, 2, 8};
  const std::int64_t own = 48, tokens = own * comm->size();
  const auto part = context_part_over(comm);
  const std::vector<double> x = own_of(call.qkv(tokens), 2, tokens, part->runs(own));
  const TapeScope scope;
  Tensor qkv = tensor_of(x, {2, own, call.columns()}, DType::f32, comm->device()).set_requires_grad(true);
  SpanRecording recording;
  sum(part->attention(qkv, 4, 2, call.options())).backward();
  recording.stop();
  const auto flops = [&](const std::string& name) {
    std::int64_t found = 0;
    for (const Span& span : recording.spans()) found += span.name == name ? span.work.flops : 0;
    return found;
  };
  // 2 sequences, 4 heads of 8 elements, and half of the pairs of tokens: each pair two FLOPs an element.
  const std::int64_t product = 2 * 4 * 8 * (tokens * (tokens + 1) / 2) * 2 / comm->size();
  CHECK(flops("ring_attention") == 2 * product);
  CHECK(flops("ring_attention backward") == 5 * product);
}

}  // namespace ringtape::test
