// Clipping once, after accumulating, and after each micro-batch: the length and the direction of the gradient
// that the step uses.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/clip.h"
#include "optim/sgd.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kBatch = 64, kFeatures = 32;

struct Options {
  double limit = 1, target = 100;  ///< limit of the norm; target of the sample that is far off
  std::uint64_t seed = 0;
};

/// 64 samples, of which one is far off, and a linear model for them.
class Example {
 public:
  Example(std::int64_t outlier, const Options& options)
      : model_((manual_seed(options.seed), kFeatures), 1),
        arena_(model_, Device()),
        x_(randn({kBatch, kFeatures})),
        y_(randn({kBatch, 1}, DType::f32, {}, 1)) {
    y_.data<float>()[outlier] = static_cast<float>(options.target);
  }

  /// The gradient that SGD's step uses: with a learning rate of 1, the decrease of the weights.
  /// `each` is the limit after each micro-batch, infinity for none; `after` is the limit before the step.
  std::vector<double> used_gradient(std::int64_t steps, double each, double after) {
    SGD optimizer(arena_, {.learning_rate = 1});
    const std::vector<double> before = arena_.values().to_doubles();
    arena_.zero_grad();
    for (const auto& [first, size] : cut_into_micro_batches(kBatch, kBatch / steps)) {
      const Tensor prediction = model_(x_.alias({size, kFeatures}, first * kFeatures));
      mse_loss(prediction, y_.alias({size, 1}, first), Reduction::sum, kBatch).backward();
      clip_grad_norm_now(arena_, each);
    }
    clip_grad_norm(arena_, after);
    optimizer.step();
    std::vector<double> used = arena_.values().to_doubles();
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = before[i] - used[i];
    return used;
  }

 private:
  Linear model_;
  ParameterArena arena_;
  Tensor x_, y_;
};

double product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// "1.000, 38.3 degrees": the norm, and the angle to the gradient without clipping.
std::string describe(const std::vector<double>& used, const std::vector<double>& gradient) {
  const double norm = std::sqrt(product(used, used));
  const double cosine = product(used, gradient) / norm / std::sqrt(product(gradient, gradient));
  return fmt::format("{:.3f}, {:.1f} degrees", norm, std::acos(std::fmin(cosine, 1)) * 180 / M_PI);
}

void show(const Options& options) {
  const double limit = options.limit;
  for (const std::int64_t outlier : {0, 63}) {
    const auto used = [&](std::int64_t steps, double each, double after) {
      return Example(outlier, options).used_gradient(steps, each, after);
    };
    const std::vector<double> gradient = used(1, INFINITY, INFINITY);
    fmt::print("sample {} is far off: gradient norm {:.3f}, limit {:g}\n", outlier,
               std::sqrt(product(gradient, gradient)), limit);
    fmt::print("  cut into   clipped once, after  {:<19}  in the loop, to {:g}/sqrt(steps)\n",
               fmt::format("in the loop, to {:g}", limit), limit);
    for (const std::int64_t steps : {1, 2, 4, 8}) {
      const double share = limit / std::sqrt(static_cast<double>(steps));
      fmt::print("  {:<9}  {:<19}  {:<19}  {}\n", fmt::format("{} x {}", steps, kBatch / steps),
                 describe(used(steps, INFINITY, limit), gradient),
                 describe(used(steps, limit, INFINITY), gradient),
                 describe(used(steps, share, INFINITY), gradient));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Clipping once for a batch, and after each of its micro-batches.\nExample: clipping --clip-norm 30");
  app.option("--clip-norm", between(options.limit, 1e-6, 1e6), "limit of the gradient's norm");
  app.option("--target", between(options.target, -1e6, 1e6), "target of the sample that is far off");
  app.option("--seed", options.seed, "seed of the weights and samples");
  return app.run(argc, argv, [&] { show(options); });
}
