// Times the data loader on MNIST: microseconds of a batch beside the time of copying its bytes, first without
// other work (as fast as batches can be made), then with a training loop that keeps two threads busy between
// batches.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "cli/command_line.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Keeps two threads busy, as the kernels of a training step do.
void compute(double seconds) {
#pragma omp parallel num_threads(2)
  {
    const double end = now() + seconds;
    while (now() < end) {
    }
  }
}

struct Cost {
  double waiting;  // seconds per batch inside the loader's functions
  double total;    // seconds per batch of the epoch, without the steps
};

// The median of five epochs with a step of `step_seconds` after each batch.
Cost measure(DataLoader& loader, double step_seconds) {
  const auto batches = static_cast<double>(loader.batches_per_epoch());
  std::vector<Cost> epochs;
  for (int epoch = 0; epoch < 5; ++epoch) {
    const double start = now();
    double computing = 0;
    loader.start_epoch(epoch);
    while (loader.next()) {
      const double before = now();
      if (step_seconds > 0) compute(step_seconds);
      computing += now() - before;
    }
    const double all = now() - start;
    epochs.push_back({(all - computing) / batches, all / batches - step_seconds});
  }
  std::nth_element(epochs.begin(), epochs.begin() + 2, epochs.end(),
                   [](const Cost& a, const Cost& b) { return a.total < b.total; });
  return epochs[2];
}

// Seconds to copy the same number of rows in order.
double copy_seconds(const TensorDataset& data, std::int64_t batch_size) {
  const auto bytes = static_cast<std::size_t>(batch_size) * data.features().bytes();
  std::vector<std::uint8_t> to(bytes);
  const auto* from = data.all_features().data<std::uint8_t>();
  const std::int64_t batches = data.size() / batch_size;
  const double start = now();
  for (std::int64_t i = 0; i < batches; ++i)
    std::memcpy(to.data(), from + static_cast<std::size_t>(i) * bytes, bytes);
  return (now() - start) / static_cast<double>(batches);
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
      fmt::print("{:>16} {:>16.0f} {:>20.2f} {:>20.2f}\n", threads, step, 1e6 * cost.waiting,
                 1e6 * cost.total);
      results.add({.name = fmt::format("batch, {} prefetch threads, {}", threads,
                                       step > 0 ? "under a step" : "alone"),
                   .size = fmt::format("batch {}", batch_size),
                   .seconds = cost.total,
                   .bytes = 2 * bytes,
                   .limit_seconds = copy,
                   .more = {{"waiting_seconds", cost.waiting}}});
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
