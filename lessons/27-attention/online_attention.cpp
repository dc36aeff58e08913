// Online softmax: attention of one query, key by key, and the memory that attention holds on the tape.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/numbers.h"

namespace {

using namespace ringtape;

struct Options {
  std::vector<double> scores = {1, 3, 2, 5}, values = {10, 20, 30, 40};
  std::vector<std::int64_t> tokens = {64, 128, 256, 512};
};

/// e^x as f32 has it: infinite from about 88.7 on.
double exponential(double x) {
  return static_cast<double>(std::exp(static_cast<float>(x)));
}

/// The formula as it is written: sum of e^score x value over sum of e^score.
double by_formula(const Options& options) {
  double sum = 0, result = 0;
  for (std::size_t i = 0; i < options.scores.size(); ++i) {
    sum += exponential(options.scores[i]);
    result += exponential(options.scores[i]) * options.values[i];
  }
  return without_nan_sign(result / sum);
}

void show_one_query(const Options& options) {
  fmt::print("One query, key by key\n");
  fmt::print("  score  value | maximum   factor   weight |     sum    result\n");
  double maximum = -std::numeric_limits<double>::infinity(), sum = 0, result = 0;
  for (std::size_t i = 0; i < options.scores.size(); ++i) {
    const double score = options.scores[i], larger = std::fmax(maximum, score);
    const double factor = exponential(maximum - larger), weight = exponential(score - larger);
    sum = sum * factor + weight;
    result = result * factor + weight * options.values[i];
    maximum = larger;
    fmt::print("  {:>5g}  {:>5g} | {:>7g}  {:>7.5f}  {:>7.5f} | {:>7.5f}  {:>8.4f}\n", score,
               options.values[i], maximum, factor, weight, sum, result);
  }
  fmt::print("  result / sum = {:.4f}; by the formula as it is written {:.4f}\n", result / sum,
             by_formula(options));
}

/// Attention by separate operations of the tape: scores, softmax, weighted sum. Without a mask, which would
/// not change what is kept.
Tensor in_three(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double factor = 1 / std::sqrt(static_cast<double>(q.size(1)));
  return matmul(softmax(scale(matmul(q, k, false, true), factor)), v);
}

/// What the tape keeps for backward, beside the inputs.
void show_memory(const std::vector<std::int64_t>& tokens) {
  constexpr std::int64_t kWidth = 64;
  const auto kept = [] { return static_cast<double>(Tape::current().saved_bytes()); };
  fmt::print("\nOne head of 64 elements: bytes that the tape keeps for backward\n");
  fmt::print("  tokens   tokens x tokens   by the formula's steps   in one kernel\n");
  for (const std::int64_t n : tokens) {
    const auto input = [](std::int64_t rows, std::int64_t columns) {
      Tensor x = randn({rows, columns});
      return x.set_requires_grad(true);
    };
    const Tensor q = input(n, kWidth), k = input(n, kWidth), v = input(n, kWidth);
    const double before = kept();
    const Tensor y = in_three(q, k, v);
    const double by_steps = kept() - before;
    Tensor qkv = randn({1, n, 3 * kWidth});
    qkv.set_requires_grad(true);
    const double between = kept();
    const Tensor fused = causal_self_attention(qkv, 1, 1);
    const double in_one = kept() - between;
    fmt::print("  {:>6}  {:>16}  {:>23}  {:>14}\n", n, bytes_text(4.0 * static_cast<double>(n * n)),
               bytes_text(by_steps), bytes_text(in_one));
    Tape::current().clear();
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Attention with an online softmax.\n"
      "Example: online_attention --scores 1000,1001 --values 1,2");
  app.option("--scores", options.scores, "the query's product with each key");
  app.option("--values", options.values, "each key's value");
  app.option("--context", options.tokens, "tokens of sequences whose memory is measured");
  return app.run(argc, argv, [&] {
    check(options.scores.size() == options.values.size() && !options.scores.empty(),
          "--scores and --values: expected the same number of each, found {} and {}", options.scores.size(),
          options.values.size());
    for (const std::int64_t n : options.tokens)
      check(n >= 1 && n <= 4096, "--context: expected 1 to 4096, found {}", n);
    show_one_query(options);
    show_memory(options.tokens);
  });
}
