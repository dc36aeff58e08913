// The order in which a loader hands out samples: by seed, epoch, rank and position.
#include <fmt/ranges.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autograd/creation.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "data/loader.h"

namespace {

using namespace ringtape;

struct Options {
  std::int64_t samples = 10, batch = 4, consumed = 4;
  std::uint64_t seed = 0;
  int ranks = 2;
};

/// What a loader hands out from `consumed` samples on, until the end of the epoch: "3 1 | 2".
std::string handed_out(const Options& options, std::shared_ptr<const Sampler> order, std::int64_t consumed,
                       const DataLoaderOptions& of_loader, std::int64_t epoch) {
  const Tensor numbers = arange(0, static_cast<double>(options.samples), 1, DType::i64);
  DataLoader loader(std::make_shared<TensorDataset>(numbers, numbers), std::move(order), of_loader);
  loader.start_epoch(epoch, consumed);
  std::vector<std::string> batches;
  while (const std::optional<Batch> batch = loader.next())
    batches.push_back(fmt::format("{}", fmt::join(batch->targets().to_vector<std::int64_t>(), " ")));
  return fmt::format("{}", fmt::join(batches, " | "));
}

void show(const Options& options) {
  const auto order_of = [&](std::uint64_t seed) {
    return std::make_shared<RandomSampler>(options.samples, seed);
  };
  const auto row = [&](const std::string& name, const std::string& batches) {
    fmt::print("  {:<26} {}\n", name, batches);
  };
  const auto whole = [&](const std::string& name, std::uint64_t seed, std::int64_t epoch, int threads = 1,
                         bool drop_last = false) {
    row(name, handed_out(options, order_of(seed), 0,
                         {.batch_size = options.batch, .drop_last = drop_last, .prefetch_threads = threads},
                         epoch));
  };
  const std::uint64_t seed = options.seed;
  fmt::print("{} samples in batches of {}\n", options.samples, options.batch);
  whole(fmt::format("seed {}, epoch 0", seed), seed, 0);
  whole("  no thread", seed, 0, 0);
  whole("  4 threads", seed, 0, 4);
  whole("  no short batch", seed, 0, 1, true);
  whole(fmt::format("seed {}, epoch 1", seed), seed, 1);
  whole(fmt::format("seed {}, epoch 0", seed + 1), seed + 1, 0);
  const auto by_rank = [&](std::int64_t consumed) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      const auto own = std::make_shared<DistributedSampler>(order_of(seed), rank, options.ranks);
      row(fmt::format("rank {} of {}", rank, options.ranks),
          handed_out(options, own, own->own_of(consumed), {.batch_size = options.batch / options.ranks}, 0));
    }
  };
  fmt::print("Seed {}, epoch 0, on {} ranks\n", seed, options.ranks);
  by_rank(0);
  fmt::print("Resumed after {} samples\n", options.consumed);
  row("one rank", handed_out(options, order_of(seed), options.consumed, {.batch_size = options.batch}, 0));
  by_rank(options.consumed);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "The order in which a loader hands out samples.\n"
      "Example: sample_order --dataset 9 --seed 3");
  app.option("--dataset", between(options.samples, 1, 1000), "samples of the dataset");
  app.option("--batch-size", between(options.batch, 1, 1000), "samples of a batch, on all ranks together");
  app.option("--consumed", between(options.consumed, 0, 1000), "samples consumed before the run is resumed");
  app.option("--seed", options.seed, "seed of the shuffle");
  app.option("--ranks", between(options.ranks, 1, 64), "ranks");
  return app.run(argc, argv, [&] {
    const auto& [samples, batch, consumed, seed, ranks] = options;
    check(batch % ranks == 0, "--batch-size must be a multiple of --ranks, found {} and {}", batch, ranks);
    check(samples >= batch, "--dataset: expected at least the batch, {}, found {}", batch, samples);
    check(consumed <= samples, "--consumed: expected 0 to {}, found {}", samples, consumed);
    show(options);
  });
}
