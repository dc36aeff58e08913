#include "kernels/attention.h"

#include <array>
#include <bit>

#include "core/ceil_div.h"
#include "tests/support/check_build.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

template <class T>
using AccumulateOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Values [batch, tokens, heads, width] and the largest rounding error that a result of these sums may have.
struct Bounded {
  std::vector<double> value, error;
  explicit Bounded(std::int64_t n) : value(static_cast<std::size_t>(n)), error(value) {}
};

/// The largest |found - expected| over the allowed error: the result's bound, one rounding to the element
/// type, and half a unit of f16's subnormals.
template <class T>
double worst(const std::vector<double>& found, const Bounded& expected, int contributions = 1) {
  REQUIRE(found.size() == expected.value.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double wanted = contributions * expected.value[i];
    const double allowed = contributions * (expected.error[i] + rounding<T>() * std::abs(wanted) +
                                            (std::is_same_v<T, float16> ? 0x1p-25 : 0));
    const double error = std::abs(found[i] - wanted);
    if (!(error <= allowed * worst)) worst = std::isfinite(error) ? error / allowed : INFINITY;
  }
  return worst;
}

using Philox4Words = std::array<std::uint32_t, 4>;

/// One problem: random inputs, held exactly by T, and the results by the formulas of attention.h in double.
template <class T>
struct Case {
  std::int64_t batch, heads, kv_heads, queries, keys, width;
  double dropout = 0;
  double scale = 1 / std::sqrt(static_cast<double>(width));

  // A token of q has `heads` heads; k and v are packed, so that a token has 2 kv_heads.
  std::vector<T> q = random_values<T>(batch * queries * heads * width, 1);
  std::vector<T> kv = random_values<T>(batch * keys * 2 * kv_heads * width, 2);
  std::vector<T> dout = random_values<T>(batch * queries * heads * width, 3, -1, 1);

  Bounded out{batch * queries * heads * width}, lse{batch * heads * queries};
  Bounded dq{batch * queries * heads * width}, dkv{batch * keys * 2 * kv_heads * width};

  std::int64_t q_at(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return ((b * queries + i) * heads + h) * width;
  }
  /// Key j of head h; its value lies kv_heads * width further on.
  std::int64_t k_at(std::int64_t b, std::int64_t j, std::int64_t h) const {
    return ((b * keys + j) * 2 * kv_heads + h / (heads / kv_heads)) * width;
  }

  static constexpr std::uint64_t kSeed = 77, kCounter = (std::uint64_t{1} << 33) + 5;

  /// m of attention.h, by its definition.
  double mask(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::int64_t row = (b * heads + h) * keys + i + keys - queries;
    const auto at = static_cast<std::uint64_t>(row * (ceil_div(keys, 4)) + j / 4);
    const Philox4Words words = std::bit_cast<Philox4Words>(on_cpu::philox4x32_10(kSeed, kCounter, at));
    return words[static_cast<std::size_t>(j % 4)] < dropout * 0x1p32 ? 0 : 1 / (1 - dropout);
  }

  /// Fills the expected results. A dot product of a few dozen terms is off by some units of the sum of their
  /// sizes, and an error of a score s is a relative error of exp(s): 16 units (1 + size of the scores) for
  /// each weight. The backward reads the rounded `out`: an error of delta.
  void expect() {
    const double unit = 16 * rounding<AccumulateOf<T>>();
    const std::int64_t w = width, v = kv_heads * width;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < queries; ++i) {
          const std::int64_t at = q_at(b, i, h), visible = i + keys - queries + 1;
          std::vector<double> p(static_cast<std::size_t>(visible));
          double largest = -INFINITY, size = 0, sum = 0;
          for (std::int64_t j = 0; j < visible; ++j) {
            double score = 0, terms = 0;
            for (std::int64_t d = 0; d < w; ++d) {
              const double term = scale * get(q, at + d) * get(kv, k_at(b, j, h) + d);
              score += term;
              terms += std::abs(term);
            }
            p[static_cast<std::size_t>(j)] = score;
            largest = std::max(largest, score);
            size = std::max(size, terms);
          }
          for (double& score : p) sum += score = std::exp(score - largest);
          for (double& weight : p) weight /= sum;
          const double off = unit * (1 + size);  // relative error of a weight
          const std::size_t row = static_cast<std::size_t>((b * heads + h) * queries + i);
          lse.value[row] = largest + std::log(sum);
          lse.error[row] = off;

          double delta = 0, delta_size = 0;
          for (std::int64_t d = 0; d < w; ++d) {
            double value = 0, terms = 0;
            for (std::int64_t j = 0; j < visible; ++j) {
              const double term =
                  mask(b, h, i, j) * p[static_cast<std::size_t>(j)] * get(kv, k_at(b, j, h) + v + d);
              value += term;
              terms += std::abs(term);
            }
            put(out, at + d, value, off * terms);
            delta += value * get(dout, at + d);
            delta_size += terms * std::abs(get(dout, at + d));
          }
          for (std::int64_t j = 0; j < visible; ++j) {
            const double weight = p[static_cast<std::size_t>(j)], m = mask(b, h, i, j);
            const std::int64_t key = k_at(b, j, h);
            double dp = 0, dp_size = 0;
            for (std::int64_t d = 0; d < w; ++d) {
              const double g = get(dout, at + d), term = m * g * get(kv, key + v + d);
              dp += term;
              dp_size += std::abs(term);
              put(dkv, key + v + d, m * weight * g, off * m * weight * std::abs(g));
            }
            const double ds = scale * weight * (dp - delta);
            const double ds_error =
                scale * weight * (off * (dp_size + delta_size) + rounding<T>() * delta_size);
            for (std::int64_t d = 0; d < w; ++d) {
              put(dq, at + d, ds * get(kv, key + d), ds_error * std::abs(get(kv, key + d)));
              put(dkv, key + d, ds * get(q, at + d), ds_error * std::abs(get(q, at + d)));
            }
          }
        }
      }
    }
  }

  /// Runs both passes on every device and compares.
  void check() {
    expect();
    on_every_device<T>([&](Device device, const Stream& stream) {
      const DeviceArray<T> q_in(device, q), kv_in(device, kv), dout_in(device, dout);
      DeviceArray<T> y(device, out_elements(), from_double<T>(7));
      DeviceArray<AccumulateOf<T>> stats(device, batch * heads * queries),
          delta(device, batch * heads * queries);
      AttentionArgs args;
      args.dtype = dtype_of<T>;
      args.batch = batch;
      args.heads = heads;
      args.kv_heads = kv_heads;
      args.queries = queries;
      args.keys = keys;
      args.width = width;
      args.scale = scale;
      args.q = of_q(q_in.data());
      args.k = of_kv(kv_in.data());
      args.v = of_kv(kv_in.data() + kv_heads * width);
      args.out = of_q(y.data());
      args.lse = stats.data();
      args.dropout = dropout;
      args.seed = kSeed;
      args.counter = kCounter;
      attention_forward(stream, args);
      CHECK(worst<T>(y.doubles(), out) <= 1);
      CHECK(worst<T>(stats.doubles(), lse) <= 1);
      const std::vector<double> first = y.doubles();
      attention_forward(stream, args);
      CHECK(worst_error(y.doubles(), first, 0) == 0);  // the same bits

      DeviceArray<T> q_gradient(device, out_elements(), from_double<T>(9));
      DeviceArray<T> kv_gradient(device, batch * keys * 2 * kv_heads * width, from_double<T>(9));
      AttentionGradients gradients;
      gradients.dout = of_q(dout_in.data());
      gradients.dq = of_q(q_gradient.data());
      gradients.dk = of_kv(kv_gradient.data());
      gradients.dv = of_kv(kv_gradient.data() + kv_heads * width);
      gradients.delta = delta.data();
      attention_backward(stream, args, gradients);
      CHECK(worst<T>(q_gradient.doubles(), dq) <= 1);
      CHECK(worst<T>(kv_gradient.doubles(), dkv) <= 1);
      gradients.accumulate = true;
      attention_backward(stream, args, gradients);
      CHECK(worst<T>(q_gradient.doubles(), dq, 2) <= 1);
      CHECK(worst<T>(kv_gradient.doubles(), dkv, 2) <= 1);
    });
  }

 private:
  std::int64_t out_elements() const { return batch * queries * heads * width; }
  AttentionOperand of_q(T* data) const { return {data, queries * heads * width, heads * width, width}; }
  AttentionOperand of_kv(T* data) const {
    return {data, keys * 2 * kv_heads * width, 2 * kv_heads * width, width};
  }
  static double get(const std::vector<T>& values, std::int64_t i) {
    return to_double(values[static_cast<std::size_t>(i)]);
  }
  static void put(Bounded& to, std::int64_t i, double value, double error) {
    to.value[static_cast<std::size_t>(i)] += value;
    to.error[static_cast<std::size_t>(i)] += error;
  }
};

}  // namespace

TEMPLATE_TEST_CASE("attention: forward and gradients of any length", "[attention]", float, double, bfloat16,
                   float16) {
  for (const std::int64_t tokens : {1, 2, 31, 33, 64, 65}) {
    INFO("tokens " << tokens);
    Case<TestType>{1, 1, 1, tokens, tokens, 32}.check();
  }
  if (!kCheckBuild) Case<TestType>{1, 1, 1, 257, 257, 64}.check();
}

TEMPLATE_TEST_CASE("attention: heads of any width", "[attention]", float, double, bfloat16, float16) {
  for (const std::int64_t width : {1, 7, 32, 48, 64, 80, 96, 128}) {
    INFO("width " << width);
    Case<TestType>{1, 2, 2, 37, 37, width}.check();
  }
}

TEMPLATE_TEST_CASE("attention: sequences, heads and grouped-query heads", "[attention]", float, double,
                   bfloat16, float16) {
  Case<TestType>{2, 3, 3, 9, 9, 16}.check();
  Case<TestType>{2, 4, 2, 35, 35, 8}.check();
  Case<TestType>{3, 3, 1, 65, 65, 12}.check();
}

TEMPLATE_TEST_CASE("attention: the first keys come from a cache", "[attention]", float, double, bfloat16,
                   float16) {
  for (const std::int64_t queries : {1, 2, 5, 33}) {
    INFO("queries " << queries);
    Case<TestType>{2, 4, 2, queries, 131, 20}.check();
  }
  Case<TestType>{1, 2, 2, 2, 601, 72}.check();
}

TEMPLATE_TEST_CASE("attention: dropout with the mask of the definition, in both passes", "[attention]", float,
                   double, bfloat16, float16) {
  Case<TestType>{2, 2, 1, 70, 70, 16, 0.3}.check();
  Case<TestType>{1, 3, 3, 5, 67, 72, 0.75}.check();
}

// Each token's key is its query, a multiple of one unit vector: the scores are 0 or size^2 / sqrt(8), 3e4 or
// 3e8, where exp overflows.
void check_large_scores(float size) {
  INFO("queries and keys of the size " << size);
  constexpr std::int64_t kTokens = 70, kWidth = 8;
  Case<float> c{1, 1, 1, kTokens, kTokens, kWidth};
  for (float& x : c.q) x = 0;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    for (std::int64_t d = 0; d < kWidth; ++d) {
      c.kv[static_cast<std::size_t>(2 * i * kWidth + d)] = d == i % kWidth ? size : 0.0f;
      c.q[static_cast<std::size_t>(i * kWidth + d)] = d == i % kWidth ? size : 0.0f;
    }
  }
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> q(device, c.q), kv(device, c.kv), dout(device, c.dout);
    DeviceArray<float> out(device, kTokens * kWidth), stats(device, kTokens), delta(device, kTokens);
    DeviceArray<float> dq(device, kTokens * kWidth), dkv(device, 2 * kTokens * kWidth);
    const AttentionOperand in_q{q.data(), 0, kWidth, 0}, in_k{kv.data(), 0, 2 * kWidth, 0};
    const AttentionOperand in_v{kv.data() + kWidth, 0, 2 * kWidth, 0};
    const AttentionArgs args{DType::f32,  1,       1,      1,
                             kTokens,     kTokens, kWidth, 1 / std::sqrt(8.0),
                             in_q,        in_k,    in_v,   {out.data(), 0, kWidth, 0},
                             stats.data()};
    attention_forward(stream, args);
    // The mean of the values of the visible tokens with the same unit vector.
    std::vector<double> expected;
    for (std::int64_t i = 0; i < kTokens; ++i) {
      for (std::int64_t d = 0; d < kWidth; ++d) {
        double sum = 0;
        for (std::int64_t j = i % kWidth; j <= i; j += kWidth) {
          sum += static_cast<double>(c.kv[static_cast<std::size_t>((2 * j + 1) * kWidth + d)]);
        }
        expected.push_back(sum / static_cast<double>(i / kWidth + 1));
      }
    }
    CHECK(worst_error(out.doubles(), expected, 1e-6, 1e-6) <= 1);

    const AttentionGradients gradients{{dout.data(), 0, kWidth, 0},
                                       {dq.data(), 0, kWidth, 0},
                                       {dkv.data(), 0, 2 * kWidth, 0},
                                       {dkv.data() + kWidth, 0, 2 * kWidth, 0},
                                       delta.data()};
    attention_backward(stream, args, gradients);
    for (const DeviceArray<float>* gradient : {&dq, &dkv}) {
      const std::vector<double> values = gradient->doubles();
      CHECK(std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }));
    }
    // A weight has the rounding error of lse, half a unit of a number below 2^15: 2^-10. Beyond 2^24 lse has
    // no place for the logarithm of a count.
    if (size > 300) return;
    std::vector<double> found, means, sizes;
    const std::vector<double> values = dkv.doubles();
    for (std::int64_t j = 0; j < kTokens; ++j) {
      for (std::int64_t d = 0; d < kWidth; ++d) {
        double mean = 0, terms = 0;
        for (std::int64_t i = j; i < kTokens; i += kWidth) {
          const double term = static_cast<double>(c.dout[static_cast<std::size_t>(i * kWidth + d)]) /
                              static_cast<double>(i / kWidth + 1);
          mean += term;
          terms += std::abs(term);
        }
        const double error = values[static_cast<std::size_t>((2 * j + 1) * kWidth + d)] - mean;
        found.push_back(error / terms);
      }
    }
    CHECK(worst_error(found, std::vector<double>(found.size(), 0), 0, 1.01 * 0x1p-10) <= 1);
  });
}

TEST_CASE("attention: very large scores", "[attention]") {
  for (const float size : {300.0f, 30000.0f}) check_large_scores(size);
}

}  // namespace ringtape::test
