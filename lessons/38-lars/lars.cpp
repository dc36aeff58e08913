// LARS beside SGD: the first steps of both on MNIST, by layer.
#include <fmt/ranges.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "lessons/norm.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/lars.h"
#include "optim/sgd.h"

namespace {

using namespace ringtape;
using lessons::norm;

struct Options {
  double lr = 0.1, lars_lr = 10;  ///< of SGD, of LARS
  double momentum = 0.9;
  double scale = 1;  ///< of the loss, and so of all gradients
  std::int64_t batch = 8192, steps = 2;
  std::vector<std::int64_t> hidden = {64, 64, 64};
  std::string biases = "rate";
  std::uint64_t seed = 0;
};

/// A parameter in a step: the norms of its value and its gradient before, and of its change.
struct Step {
  std::string name;
  double value, gradient, change;
};

std::vector<std::int64_t> sizes_of(const Options& options) {
  std::vector<std::int64_t> sizes = {784};
  sizes.insert(sizes.end(), options.hidden.begin(), options.hidden.end());
  sizes.push_back(10);
  return sizes;
}

/// A network and batches of MNIST, the same in each object.
class Training {
 public:
  explicit Training(const Options& options)
      : scale_(options.scale),
        loader_(std::make_shared<TensorDataset>(data_.train),
                std::make_shared<RandomSampler>(data_.train.size(), options.seed),
                {.batch_size = options.batch, .drop_last = true}),
        model_((manual_seed(options.seed), make_mlp(sizes_of(options)))) {}

  ParameterArena& arena() { return arena_; }

  /// Takes a step of the optimizer on the next batch. Returns it by parameter, the first layer's first.
  std::vector<Step> take(Optimizer& optimizer) {
    if (taken_ % loader_.batches_per_epoch() == 0) loader_.start_epoch(taken_ / loader_.batches_per_epoch());
    ++taken_;
    const auto [images, labels] = loader_.next()->to(Device());
    arena_.zero_grad();
    const auto samples = static_cast<double>(labels.elements());
    cross_entropy((*model_)(mnist_input(images)), labels,
                  {.reduction = Reduction::sum, .divisor = samples / scale_})
        .backward();
    std::vector<std::vector<double>> before;
    for (const ArenaEntry& entry : arena_.entries()) before.push_back(entry.tensor->to_doubles());
    optimizer.step();
    std::vector<Step> steps;
    for (std::size_t i = before.size(); i-- > 0;) {
      const ArenaEntry& entry = arena_.entries()[i];
      std::vector<double> change = entry.tensor->to_doubles();
      for (std::size_t k = 0; k < change.size(); ++k) change[k] -= before[i][k];
      steps.push_back({entry.name, norm(before[i]), norm(entry.tensor->grad().to_doubles()), norm(change)});
    }
    return steps;
  }

 private:
  double scale_;
  MnistData data_ = load_mnist();
  DataLoader loader_;
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_{*model_, Device()};
  std::int64_t taken_ = 0;
};

/// What LARS does with parameters of fewer than two dimensions.
std::vector<ParameterGroup> groups_of(const Options& options) {
  ParameterGroup biases = no_decay_below_two_dimensions();
  if (options.biases == "ratio") biases.use_trust_ratio = true;
  if (options.biases == "thousandth") biases.lr_scale = 0.001;
  return {biases};
}

void show(const Options& options) {
  Training by_sgd(options), by_lars(options);
  SGD sgd(by_sgd.arena(), {.learning_rate = options.lr, .momentum = options.momentum});
  Lars lars(by_lars.arena(), {.learning_rate = options.lars_lr, .momentum = options.momentum},
            groups_of(options));
  fmt::print("{} in batches of {}, momentum {}; SGD at {}, LARS at {}\n", fmt::join(sizes_of(options), "-"),
             options.batch, options.momentum, options.lr, options.lars_lr);
  for (std::int64_t number = 1; number <= options.steps; ++number) {
    const std::vector<Step> a = by_sgd.take(sgd), b = by_lars.take(lars);
    fmt::print("\nstep {:<3} {:>35}  {:>23}\n", number, "LARS", "SGD");
    fmt::print("parameter    ||w||    ||g||  ||w|| / ||g||  step / ||w||    ||g||  step / ||w||\n");
    for (std::size_t i = 0; i < a.size(); ++i) {
      fmt::print("{:<9}  {:>7.3f}  {:>7.5f}  {:>13.2f}  {:>12.6f}  {:>7.5f}  {:>12.6f}\n", b[i].name,
                 b[i].value, b[i].gradient, b[i].value / b[i].gradient, b[i].change / b[i].value,
                 a[i].gradient, a[i].change / a[i].value);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("The first steps of LARS and of SGD, by layer.\nExample: lars --scale 8");
  app.option("--lr", between(options.lr, 1e-9, 1e6), "learning rate of SGD");
  app.option("--lars-lr", between(options.lars_lr, 1e-9, 1e6), "learning rate of LARS");
  app.option("--momentum", between(options.momentum, 0, 0.999), "momentum of both");
  app.option("--scale", between(options.scale, 1e-6, 1e6), "factor of the loss, and so of all gradients");
  app.option("--biases", word(options.biases, {"rate", "ratio", "thousandth"}),
             "what LARS does with biases: plain steps at its rate, a trust ratio, or plain steps at a "
             "thousandth of the rate");
  app.option("--hidden", between(options.hidden, 1, 4096), "sizes of the hidden layers, such as 64,64,64");
  app.option("--batch-size", between(options.batch, 1, 60000), "samples of a step");
  app.option("--steps", between(options.steps, 1, 100), "steps shown");
  app.option("--seed", options.seed, "seed of the weights and of the samples' order");
  return app.run(argc, argv, [&] { show(options); });
}
