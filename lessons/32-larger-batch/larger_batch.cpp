// SGD with a rate that falls in two steps, a batch that grows in two steps, neither, or the largest batch
// from the start.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "io/file.h"
#include "io/json.h"
#include "lessons/32-larger-batch/curvature.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/sgd.h"

namespace {

using namespace ringtape;

struct Options {
  std::string way = "rate";
  double lr = 0.03, momentum = 0.9;
  std::int64_t epochs = 2;  ///< in each of the three stages
  std::int64_t batch = 64, factor = 4;
  std::uint64_t seed = 0;
  bool curvature = false;
  std::string json;
};

struct Stage {
  std::int64_t batch;
  double lr;
};

std::vector<Stage> stages_of(const Options& options) {
  const auto [batch, lr, factor] = std::tuple(options.batch, options.lr, options.factor);
  const auto by = static_cast<double>(factor);
  if (options.way == "rate") return {{batch, lr}, {batch, lr / by}, {batch, lr / by / by}};
  if (options.way == "batch") return {{batch, lr}, {batch * factor, lr}, {batch * factor * factor, lr}};
  if (options.way == "large") return std::vector<Stage>(3, {batch * factor * factor, lr});
  return std::vector<Stage>(3, {batch, lr});
}

/// In percent.
double accuracy(Module& model, const TensorDataset& samples) {
  const NoGrad no_grad;
  const Tensor logits = model(mnist_input(samples.all_features()));
  return 100 * count_correct(logits, samples.all_targets()).item() / static_cast<double>(samples.size());
}

void train(const Options& options) {
  std::optional<AtomicFile> file;  // opened before training, so that a wrong name does not waste it
  if (!options.json.empty()) file.emplace(options.json);
  const MnistData data = load_mnist();
  const auto samples = std::make_shared<TensorDataset>(data.train);
  const auto order = std::make_shared<RandomSampler>(samples->size(), options.seed);
  manual_seed(options.seed);
  const auto model = make_mlp({784, 64, 10});
  ParameterArena arena(*model, Device());
  SGD optimizer(arena, {.learning_rate = options.lr, .momentum = options.momentum});
  fmt::print("{}: 784-64-10, SGD with momentum {}, seed {}\n", options.way, options.momentum, options.seed);
  fmt::print("epochs  batch      rate  updates  training loss  test accuracy\n");
  std::int64_t updates = 0, epoch = 0;
  for (const auto& [batch_size, lr] : stages_of(options)) {
    DataLoader loader(samples, order, {.batch_size = batch_size});
    optimizer.set_learning_rate(lr);
    double loss_of_epoch = 0;
    for (const std::int64_t end = epoch + options.epochs; epoch < end; ++epoch) {
      loss_of_epoch = 0;
      loader.start_epoch(epoch);
      while (const std::optional<Batch> batch = loader.next()) {
        const Tensor loss = cross_entropy((*model)(mnist_input(batch->features())), batch->targets());
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        ++updates;
        loss_of_epoch +=
            loss.item() * static_cast<double>(batch->size()) / static_cast<double>(samples->size());
      }
      check(std::isfinite(loss_of_epoch), "training diverged: the loss of epoch {} is {}", epoch + 1,
            loss_of_epoch);
    }
    fmt::print("{:>6} {:>6} {:>9.5g} {:>8} {:>14.4f} {:>13.2f}%\n", epoch, batch_size, lr, updates,
               loss_of_epoch, accuracy(*model, data.test));
  }
  double curvature = NAN;
  if (options.curvature) {
    const TensorDataset some = data.train.slice(0, 4096);
    const Tensor x = mnist_input(some.all_features());
    curvature =
        lessons::largest_curvature(arena, [&] { cross_entropy((*model)(x), some.all_targets()).backward(); });
    fmt::print("largest curvature {:.2f}\n", curvature);
  }
  if (!file) return;
  const Json result = {
      {"test_accuracy", accuracy(*model, data.test) / 100}, {"updates", updates}, {"curvature", curvature}};
  const std::string text = result.dump() + "\n";
  file->write(text.data(), text.size());
  file->commit();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "A larger batch in place of a lower learning rate.\n"
      "Example: larger_batch --way batch --epochs 1");
  app.option("--way", word(options.way, {"rate", "batch", "neither", "large"}),
             "divide the rate, or multiply the batch, after each of two stages; neither; the last batch from "
             "the start");
  app.option("--lr", between(options.lr, 1e-9, 1e6), "learning rate of the first stage");
  app.option("--momentum", between(options.momentum, 0, 0.999), "momentum of SGD");
  app.option("--epochs", between(options.epochs, 1, 100), "epochs in each of the three stages");
  app.option("--batch-size", between(options.batch, 1, 1000), "samples of an update in the first stage");
  app.option("--factor", between(options.factor, 1, 16),
             "factor by which the rate is divided, or the batch multiplied");
  app.option("--seed", options.seed, "seed of the weights and of the samples' order");
  app.option("--curvature", options.curvature,
             "also compute the largest eigenvalue of the Hessian, over 4,096 training samples");
  app.file("--json", options.json, "write the result to this file, as JSON");
  return app.run(argc, argv, [&] { train(options); });
}
