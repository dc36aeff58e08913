// The gradient noise scale during a training run: estimated from the gradients of small and of large batches,
// and exactly.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/sgd.h"

namespace {

using namespace ringtape;

struct Options {
  std::vector<std::int64_t> steps = {0, 100, 1000, 5000};  ///< after which the noise is measured
  std::int64_t batch = 64;                                 ///< of the training run
  double lr = 0.01;
  std::int64_t small = 64, large = 1024, repeats = 32;  ///< of the estimate
  std::int64_t samples = 4096;                          ///< over which the noise is measured
  std::uint64_t seed = 0;
};

/// |G|^2 of the mean gradient G, and tr(Sigma) of the covariance Sigma of the samples' gradients.
struct Noise {
  double mean_squared = 0, trace = 0;
  double scale() const { return trace / mean_squared; }
};

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options),
        loader_(std::make_shared<TensorDataset>(data_.train),
                std::make_shared<RandomSampler>(data_.train.size(), options.seed),
                {.batch_size = options.batch, .drop_last = true}) {}

  void until(std::int64_t steps) {
    for (; steps_ < steps; ++steps_) {
      if (steps_ % loader_.batches_per_epoch() == 0)
        loader_.start_epoch(steps_ / loader_.batches_per_epoch());
      const auto [images, labels] = loader_.next()->to(Device());
      arena_.zero_grad();  // of a measurement too
      loss_of(images, labels).backward();
      optimizer_.step();
    }
  }

  /// Computes the mean gradient of these samples into the arena. Returns the mean loss.
  double gradient_of(const std::vector<std::int64_t>& samples) {
    const auto n = static_cast<std::int64_t>(samples.size());
    const Tensor images = empty({n, 28, 28}, DType::u8), labels = empty({n}, DType::i64);
    data_.train.read(samples, images.raw(), labels.raw());
    arena_.zero_grad();
    const Tensor loss = loss_of(images, labels);
    loss.backward();
    return loss.item();
  }

  std::vector<double> gradient() const { return arena_.gradients().to_doubles(); }

 private:
  Tensor loss_of(const Tensor& images, const Tensor& labels) {
    return cross_entropy((*model_)(mnist_input(images)), labels);
  }

  Options options_;
  MnistData data_ = load_mnist();
  DataLoader loader_;
  std::shared_ptr<Sequential> model_ = (manual_seed(options_.seed), make_mlp({784, 64, 10}));
  ParameterArena arena_{*model_, Device()};
  SGD optimizer_{arena_, {.learning_rate = options_.lr, .momentum = 0.9}};
  std::int64_t steps_ = 0;
};

double squared(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

/// From every sample's gradient.
Noise exact(Training& training, const Options& options, double& loss) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(options.samples));
  std::iota(all.begin(), all.end(), 0);
  loss = training.gradient_of(all);
  const double mean_squared = squared(training.gradient());
  double of_samples = 0;
  for (const std::int64_t sample : all) {
    training.gradient_of({sample});
    of_samples += squared(training.gradient()) / static_cast<double>(options.samples);
  }
  return {mean_squared, of_samples - mean_squared};
}

/// The unbiased estimates of McCandlish et al. ("An empirical model of large-batch training", 2018, appendix
/// A.1): the expected |gradient|^2 of a batch of B samples is |G|^2 + tr(Sigma) / B, so that two sizes of
/// batches give both. A large batch is made of small ones, as with data parallelism.
Noise estimate(Training& training, const Options& options) {
  const std::int64_t parts = options.large / options.small;
  const ReplacementSampler draws(options.samples, options.repeats * options.large, options.seed);
  const std::vector<std::int64_t> order = draws.order(0);
  double of_small = 0, of_large = 0;  // mean |gradient|^2
  for (std::int64_t repeat = 0, at = 0; repeat < options.repeats; ++repeat) {
    std::vector<double> large;
    for (std::int64_t part = 0; part < parts; ++part, at += options.small) {
      training.gradient_of({order.begin() + at, order.begin() + at + options.small});
      const std::vector<double> small = training.gradient();
      large.resize(small.size());
      for (std::size_t i = 0; i < small.size(); ++i) large[i] += small[i] / static_cast<double>(parts);
      of_small += squared(small) / static_cast<double>(parts * options.repeats);
    }
    of_large += squared(large) / static_cast<double>(options.repeats);
  }
  const auto b = static_cast<double>(options.small), B = static_cast<double>(options.large);
  return {(B * of_large - b * of_small) / (B - b), (of_small - of_large) / (1 / b - 1 / B)};
}

void show(const Options& options) {
  Training training(options);
  fmt::print("784-64-10, SGD at {} with momentum 0.9, batch {}, seed {}\n", options.lr, options.batch,
             options.seed);
  fmt::print("         {:>8} {:>21} {:>21} {:>21}\n", "", "|G|^2", "tr(Sigma)", "noise scale");
  fmt::print("  steps  {:>8}", "loss");
  for (int i = 0; i < 3; ++i) fmt::print(" {:>10} {:>10}", "exact", "estimate");
  fmt::print("\n");
  for (const std::int64_t steps : options.steps) {
    training.until(steps);
    double loss = 0;
    const Noise found = exact(training, options, loss), guessed = estimate(training, options);
    fmt::print("{:>7}  {:>8.4f} {:>10.5f} {:>10.5f} {:>10.3f} {:>10.3f} {:>10.1f} {:>10.1f}\n", steps, loss,
               found.mean_squared, guessed.mean_squared, found.trace, guessed.trace, found.scale(),
               guessed.scale());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "The gradient noise scale during a training run, estimated and exactly.\n"
      "Example: noise_scale --steps 0,10 --samples 256 --repeats 4");
  app.option("--steps", options.steps, "steps after which the noise is measured, in ascending order");
  app.option("--batch-size", between(options.batch, 1, 60000), "samples of an update of the training run");
  app.option("--lr", between(options.lr, 1e-9, 1e3), "learning rate of the training run");
  app.option("--small", between(options.small, 1, 30000), "samples of a small batch");
  app.option("--large", between(options.large, 2, 60000), "samples of a large batch");
  app.option("--repeats", between(options.repeats, 1, 100000), "large batches of an estimate");
  app.option("--samples", between(options.samples, 2, 60000),
             "training samples over which the noise is measured");
  app.option("--seed", options.seed, "seed of the weights and of the samples' orders");
  return app.run(argc, argv, [&] {
    check(options.large % options.small == 0 && options.large > options.small,
          "--large must be a multiple of --small, found {} and {}", options.large, options.small);
    check(!options.steps.empty() && options.steps.front() >= 0 &&
              std::is_sorted(options.steps.begin(), options.steps.end()),
          "--steps: expected numbers from 0 on in ascending order, found {}", fmt::join(options.steps, ","));
    show(options);
  });
}
