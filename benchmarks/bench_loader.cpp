// Times the data loader on MNIST: microseconds per batch, and the time of copying its bytes for comparison.
// First without other work, as fast as batches can be made, then with a training loop that keeps two threads
// busy between batches.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "benchmarks/times.h"
#include "cli/command_line.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;

using Clock = std::chrono::steady_clock;

// Keeps two threads busy, as the kernels of a training step do.
void compute(double seconds) {
#pragma omp parallel num_threads(2)
  {
    const Clock::time_point start = Clock::now();
    while (seconds_since(start) < seconds) {
    }
  }
}

struct Cost {
  Times waiting;  // per batch, inside the loader's functions
  Times total;    // per batch of the epoch, without the steps
};

// The cost over five epochs, with a step of `step_seconds` after each batch.
Cost measure(DataLoader& loader, double step_seconds) {
  const auto batches = static_cast<double>(loader.batches_per_epoch());
  Cost cost;
  for (int epoch = 0; epoch < 5; ++epoch) {
    const Clock::time_point start = Clock::now();
    double computing = 0;
    loader.start_epoch(epoch);
    while (loader.next()) {
      const Clock::time_point before = Clock::now();
      if (step_seconds > 0) compute(step_seconds);
      computing += seconds_since(before);
    }
    const double all = seconds_since(start);
    cost.waiting.add((all - computing) / batches);
    cost.total.add(all / batches - step_seconds);
  }
  return cost;
}

// Seconds to copy a batch's bytes from rows in their order.
double copy_seconds(const TensorDataset& data, std::int64_t batch_size) {
  const auto bytes = static_cast<std::size_t>(batch_size) * data.features().bytes();
  std::vector<std::uint8_t> to(bytes);
  const auto* from = data.all_features().data<std::uint8_t>();
  const std::int64_t batches = data.size() / batch_size;
  const auto copy_all = [&] {
    for (std::int64_t i = 0; i < batches; ++i)
      std::memcpy(to.data(), from + static_cast<std::size_t>(i) * bytes, bytes);
  };
  return median_seconds(copy_all, Device{}) / static_cast<double>(batches);
}

void benchmark(std::int64_t batch_size, double step_microseconds, const std::string& json) {
  Results results("bench_loader", Device{}, json);
  const auto data = std::make_shared<TensorDataset>(load_mnist().train);
  const auto sampler = std::make_shared<RandomSampler>(data->size(), 1);
  const double bytes = static_cast<double>(batch_size) * static_cast<double>(data->features().bytes());
  const double copy = copy_seconds(*data, batch_size);
  results.setting("step_microseconds", step_microseconds);
  fmt::print("{}\nbatches of {}: {:.0f} KB each; copied in order: {:.2f} us\n\n", describe(Device{}),
             batch_size, bytes / 1000, 1e6 * copy);
  fmt::print("{:>16} {:>16} {:>20} {:>20}\n", "prefetch threads", "step us", "waiting us/batch",
             "total us/batch");
  for (double step : {0.0, step_microseconds}) {
    for (int threads : {0, 1, 2}) {
      DataLoader loader(data, sampler, {.batch_size = batch_size, .prefetch_threads = threads});
      const Cost cost = measure(loader, 1e-6 * step);
      fmt::print("{:>16} {:>16.0f} {:>20.2f} {:>20.2f}\n", threads, step, 1e6 * cost.waiting.median(),
                 1e6 * cost.total.median());
      ResultRow row{
          .name = fmt::format("batch, {} prefetch threads, {}", threads, step > 0 ? "under a step" : "alone"),
          .size = fmt::format("batch {}", batch_size),
          .bytes = 2 * bytes,
          .limit_seconds = copy,
          .more = {{"waiting_seconds", cost.waiting.median()}}};
      cost.total.add_to(row);
      results.add(row);
    }
  }
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times the data loader on MNIST.");
  std::int64_t batch_size = 64;
  double step_microseconds = 400;
  std::string json;
  app.option("--batch-size", between(batch_size, 1, 60000), "samples in a batch");
  app.option("--step-us", between(step_microseconds, 1, 1e6),
             "microseconds of the training step between batches");
  app.file("--json", json, kJsonHelp);
  return app.run(argc, argv, [&] { benchmark(batch_size, step_microseconds, json); });
}
