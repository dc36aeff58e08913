// Training by LARS in large batches, with three ways to treat the biases.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "io/file.h"
#include "io/json.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/lars.h"
#include "optim/schedule.h"

namespace {

using namespace ringtape;

struct Options {
  std::string biases = "rate", schedule = "linear";
  double lr = 20;
  std::int64_t warmup = 0, epochs = 5, batch = 8192;
  std::uint64_t seed = 0;
  std::string json;
};

ParameterGroup biases_of(const std::string& way) {
  ParameterGroup biases = no_decay_below_two_dimensions();
  if (way == "ratio") biases.use_trust_ratio = true;
  if (way == "thousandth") biases.lr_scale = 0.001;
  return biases;
}

Schedule schedule_of(const Options& options, std::int64_t updates) {
  const std::int64_t rest = updates - options.warmup;
  Schedule main = schedule::constant(options.lr);
  if (options.schedule == "linear") main = schedule::linear_decay(options.lr, rest);
  if (options.schedule == "cosine") main = schedule::cosine(options.lr, rest);
  return schedule::warm_up(schedule::Warmup::linear, options.warmup, main);
}

void train(const Options& options) {
  std::optional<AtomicFile> file;  // opened before training, so that a wrong name does not waste it
  if (!options.json.empty()) file.emplace(options.json);
  const MnistData data = load_mnist();
  const auto samples = std::make_shared<TensorDataset>(data.train);
  DataLoader loader(samples, std::make_shared<RandomSampler>(samples->size(), options.seed),
                    {.batch_size = options.batch});
  manual_seed(options.seed);
  const auto model = make_mlp({784, 64, 10});
  ParameterArena arena(*model, Device());
  Lars optimizer(arena, {.learning_rate = options.lr}, {biases_of(options.biases)});
  const std::int64_t updates = options.epochs * loader.batches_per_epoch();
  check(options.warmup < updates, "--warmup: expected fewer than the {} updates, found {}", updates,
        options.warmup);
  const Schedule rate = schedule_of(options, updates);
  std::int64_t update = 0;
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    loader.start_epoch(epoch);
    while (const std::optional<Batch> batch = loader.next()) {
      optimizer.set_learning_rate(rate(update++));
      optimizer.zero_grad();
      const Tensor loss = cross_entropy((*model)(mnist_input(batch->features())), batch->targets());
      loss.backward();
      check(std::isfinite(loss.item()), "training diverged: the loss of update {} is {}", update,
            loss.item());
      optimizer.step();
    }
  }
  const NoGrad no_grad;
  const Tensor logits = (*model)(mnist_input(data.test.all_features()));
  const double accuracy =
      count_correct(logits, data.test.all_targets()).item() / static_cast<double>(data.test.size());
  fmt::print("test accuracy {:.2f}%\n", 100 * accuracy);
  if (!file) return;
  const std::string text = Json{{"test_accuracy", accuracy}}.dump() + "\n";
  file->write(text.data(), text.size());
  file->commit();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "LARS in large batches, with biases treated in one of three ways.\nExample: lars_biases --biases "
      "ratio");
  app.option(
      "--biases", word(options.biases, {"rate", "ratio", "thousandth"}),
      "plain steps at the rate, a trust ratio as for weights, or plain steps at a thousandth of the rate");
  app.option("--lr", between(options.lr, 1e-9, 1e6), "learning rate");
  app.option("--schedule", word(options.schedule, {"constant", "linear", "cosine"}), "schedule of the rate");
  app.option("--warmup", between(options.warmup, 0, 1000), "updates of linear warm-up");
  app.option("--epochs", between(options.epochs, 1, 100), "passes over the training data");
  app.option("--batch-size", between(options.batch, 1, 60000), "samples of an update");
  app.option("--seed", options.seed, "seed of the weights and of the samples' order");
  app.file("--json", options.json, "write the result to this file, as JSON");
  return app.run(argc, argv, [&] { train(options); });
}
