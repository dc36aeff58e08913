// LAMB's trust ratio: the norm of each parameter's step, relative to the norm of the parameter.
#include <fmt/format.h>

#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "lessons/norm.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/sgd.h"

namespace {

using namespace ringtape;
using lessons::norm;

constexpr std::int64_t kBatch = 256;

struct Options {
  double lr = 0.01;
  double scale = 1;  ///< of the loss, and so of all gradients
  std::uint64_t seed = 0;
};

/// Four layers of different sizes, with the gradients of a batch.
struct Example {
  std::shared_ptr<Sequential> model;
  ParameterArena arena;

  explicit Example(const Options& options)
      : model((manual_seed(options.seed), make_mlp({64, 256, 128, 32, 10}))), arena(*model, Device()) {
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < kBatch; ++i) labels.push_back(i % 10 * (i % 3) % 10);
    const Tensor logits = (*model)(randn({kBatch, 64}));
    cross_entropy(logits, from_vector(labels, {kBatch}), {.divisor = 1 / options.scale}).backward();
  }
};

/// For each parameter: the norm of its change in one step over the norm of the parameter.
template <class AnyOptimizer, class ItsOptions>
std::vector<double> relative_changes(const Options& options, const ItsOptions& its_options) {
  Example example(options);
  AnyOptimizer optimizer(example.arena, its_options);
  std::vector<std::vector<double>> before;
  for (const ArenaEntry& entry : example.arena.entries()) before.push_back(entry.tensor->to_doubles());
  optimizer.step();
  std::vector<double> changes;
  for (std::size_t i = 0; i < before.size(); ++i) {
    std::vector<double> change = example.arena.entries()[i].tensor->to_doubles();
    for (std::size_t k = 0; k < change.size(); ++k) change[k] -= before[i][k];
    changes.push_back(norm(change) / norm(before[i]));
  }
  return changes;
}

void show(const Options& options) {
  const double lr = options.lr;
  Example example(options);
  const auto by_sgd = relative_changes<SGD>(options, SGDOptions{.learning_rate = lr});
  const auto by_adam = relative_changes<Adam>(options, AdamOptions{.learning_rate = lr});
  const auto by_lamb = relative_changes<Lamb>(options, LambOptions{.learning_rate = lr, .weight_decay = 0});
  fmt::print("One step at a rate of {}: ||change of w|| / ||w||\n", lr);
  fmt::print("{:<10} {:>8} {:>10} {:>12} {:>9} {:>9}\n", "parameter", "||w||", "||g||", "SGD", "Adam",
             "LAMB");
  for (std::size_t i = 0; i < example.arena.entries().size(); ++i) {
    const ArenaEntry& entry = example.arena.entries()[i];
    fmt::print("{:<10} {:>8.3f} {:>10.5f} {:>12.6f} {:>9.4f} {:>9.4f}\n", entry.name,
               norm(entry.tensor->to_doubles()), norm(entry.tensor->grad().to_doubles()), by_sgd[i],
               by_adam[i], by_lamb[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("The relative size of one step by SGD, Adam and LAMB.\nExample: trust_ratio --scale 8");
  app.option("--lr", between(options.lr, 1e-9, 1e6), "learning rate of all three");
  app.option("--scale", between(options.scale, 1e-6, 1e6), "factor of the loss, and so of all gradients");
  app.option("--seed", options.seed, "seed of the weights and samples");
  return app.run(argc, argv, [&] { show(options); });
}
