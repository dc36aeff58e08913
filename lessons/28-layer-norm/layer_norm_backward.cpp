// The backward of layer normalisation, term by term, beside finite differences and the tape.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"

namespace {

using namespace ringtape;
using Row = std::vector<double>;

struct Options {
  Row x = {0, 0, 4, 4}, dy = {1, 0, 0, 0}, weight;
  double eps = 1e-5, mean = 10000;
};

double mean_of(const Row& row) {
  double sum = 0;
  for (const double value : row) sum += value;
  return sum / static_cast<double>(row.size());
}

/// A row computed element by element.
template <class Element>
Row each(std::size_t size, const Element& element) {
  Row row(size);
  for (std::size_t i = 0; i < size; ++i) row[i] = element(i);
  return row;
}

/// A row's mean, rstd = 1 / sqrt(variance + eps), and the normalised row h.
struct Normed {
  double mean, rstd;
  Row h;
};

Normed normed(const Row& x, double eps) {
  const double mean = mean_of(x);
  const Row squares = each(x.size(), [&](std::size_t i) { return (x[i] - mean) * (x[i] - mean); });
  const double rstd = 1 / std::sqrt(mean_of(squares) + eps);
  return {mean, rstd, each(x.size(), [&](std::size_t i) { return (x[i] - mean) * rstd; })};
}

/// The sum of dy y, whose gradient with respect to x is the backward of dy.
double loss_of(const Options& options, const Row& x) {
  const Row h = normed(x, options.eps).h;
  double loss = 0;
  for (std::size_t i = 0; i < x.size(); ++i) loss += options.dy[i] * options.weight[i] * h[i];
  return loss;
}

Row by_differences(const Options& options) {
  constexpr double kStep = 1e-5;
  return each(options.x.size(), [&](std::size_t i) {
    Row more = options.x, less = options.x;
    more[i] += kStep;
    less[i] -= kStep;
    return (loss_of(options, more) - loss_of(options, less)) / (2 * kStep);
  });
}

Row by_tape(const Options& options) {
  const auto n = static_cast<std::int64_t>(options.x.size());
  Tensor x = from_vector(options.x, {1, n});
  x.set_requires_grad(true);
  const Tensor y = layer_norm(x, from_vector(options.weight, {n}), {}, options.eps);
  sum(multiply(y, from_vector(options.dy, {1, n}))).backward();
  return x.grad().to_doubles();
}

void print_row(const std::string& name, const Row& row) {
  fmt::print("  {:<22}", name);
  // values that are 0 up to rounding, as 0 without a sign
  for (const double value : row) fmt::print(" {:>9.4f}", std::abs(value) < 5e-5 ? 0.0 : value);
  fmt::print("\n");
}

double largest_difference(const Row& a, const Row& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// The cosine of the angle between two vectors.
std::string cosine(const Row& a, const Row& b) {
  double product = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += a[i] * b[i];
    of_a += a[i] * a[i];
    of_b += b[i] * b[i];
  }
  // Differences leave some rounding where the gradient is 0.
  return of_b < 1e-12 ? "none" : fmt::format("{:.3f}", product / std::sqrt(of_a * of_b));
}

void show_backward(const Options& options) {
  const std::size_t n = options.x.size();
  const Normed row = normed(options.x, options.eps);
  const Row g = each(n, [&](std::size_t i) { return options.dy[i] * options.weight[i]; });
  const double mean_of_both = mean_of(each(n, [&](std::size_t i) { return g[i] * row.h[i]; }));
  const double mean_of_g = mean_of(g);
  const auto backward = [&](bool has_mean, bool has_both) {
    return each(n, [&](std::size_t i) {
      return row.rstd * (g[i] - (has_mean ? mean_of_g : 0) - (has_both ? row.h[i] * mean_of_both : 0));
    });
  };
  const Row right = backward(true, true), expected = by_differences(options);

  fmt::print("A row with the mean {:g}, rstd {:.4f}\n", row.mean, row.rstd);
  print_row("x", options.x);
  print_row("h = (x - mean) rstd", row.h);
  print_row("g = dy weight", g);
  print_row("mean(g)", each(n, [&](std::size_t) { return mean_of_g; }));
  print_row("h mean(g h)", each(n, [&](std::size_t i) { return row.h[i] * mean_of_both; }));
  print_row("dx by the formula", right);
  print_row("dx by differences", expected);
  print_row("dx by the tape", by_tape(options));
  double sum = 0, with_h = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += right[i];
    with_h += right[i] * row.h[i];
  }
  fmt::print("  sum of dx {:.4f}, of dx h {:.4f}\n", std::abs(sum), std::abs(with_h));

  fmt::print("\nThe largest error of dx, and the cosine of its angle with the right one\n");
  const auto show = [&](const char* what, bool has_mean, bool has_both) {
    const Row dx = backward(has_mean, has_both);
    const double error = largest_difference(dx, expected);
    fmt::print("  {:<22} {:<10}  {}\n", what, error < 1e-6 ? "below 1e-6" : fmt::format("{:.4f}", error),
               cosine(dx, expected));
  };
  show("all terms", true, true);
  show("without mean(g)", false, true);
  show("without h mean(g h)", true, false);
}

/// Rounded to f32, whatever registers the compiler would keep it in.
float rounded(float value) {
  volatile float stored = value;
  return stored;
}

/// Three ways to compute the variance of the row, shifted to another mean, in f32.
void show_variance(const Options& options) {
  const double old_mean = mean_of(options.x);
  const auto count = static_cast<float>(options.x.size());
  std::vector<float> x;
  for (const double value : options.x) x.push_back(static_cast<float>(value - old_mean + options.mean));
  float sum = 0, squares = 0, shifted = 0, shifted_squares = 0;
  for (const float value : x) {
    const float difference = value - x[0];
    sum = rounded(sum + value);
    squares = rounded(squares + rounded(value * value));
    shifted = rounded(shifted + difference);
    shifted_squares = rounded(shifted_squares + rounded(difference * difference));
  }
  const float mean = sum / count, shifted_mean = shifted / count;
  float from_mean = 0;
  for (const float value : x) from_mean = rounded(from_mean + rounded((value - mean) * (value - mean)));
  fmt::print("\nThe variance of the same row with the mean {:g}, in f32\n", options.mean);
  const auto show = [](const char* what, float variance) { fmt::print("  {:<52} {:g}\n", what, variance); };
  show("two passes: the differences from the mean", from_mean / count);
  show("one pass: mean of the squares - square of the mean", squares / count - rounded(mean * mean));
  show("one pass: the same of the differences from x[0]",
       shifted_squares / count - rounded(shifted_mean * shifted_mean));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "The backward of layer normalisation, term by term.\n"
      "Example: layer_norm_backward --x 1,2,4 --dy 0,1,0 --weight 1,2,1");
  app.option("--x", options.x, "the row");
  app.option("--dy", options.dy, "the gradient with respect to the result");
  app.option("--weight", options.weight, "the layer's weight [ones]").no_default();
  app.option("--eps", between(options.eps, 0, 1), "what is added to the variance");
  app.option("--mean", options.mean, "mean of the row whose variance is computed in three ways");
  return app.run(argc, argv, [&] {
    if (options.weight.empty()) options.weight.assign(options.x.size(), 1);
    check(options.x.size() >= 2 && options.dy.size() == options.x.size() &&
              options.weight.size() == options.x.size(),
          "--x, --dy and --weight: expected the same number of each, at least 2, found {}, {} and {}",
          options.x.size(), options.dy.size(), options.weight.size());
    show_backward(options);
    show_variance(options);
  });
}
