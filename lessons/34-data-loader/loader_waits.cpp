// The time that a model waits for data, and how much of it reading ahead saves, in ticks of a simulated
// clock.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "cli/command_line.h"
#include "core/error.h"
#include "data/loader.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kBatches = 64;

struct Options {
  std::int64_t read = 1, slow_read = 22, compute = 4;  ///< ticks
};

/// Batches that take some ticks to read: every eighth `slow_read`, the others `read`. The computing thread
/// advances the clock, and at each tick waits until the loader's thread has seen it, so that all counts are
/// the same in each run.
class SlowDataset : public Dataset {
 public:
  /// `ahead`: batches that one thread may read ahead; 0: there is no thread.
  SlowDataset(const Options& options, std::int64_t ahead) : options_(options), ahead_(ahead) {}
  std::int64_t size() const override { return kBatches; }
  SampleLayout features() const override { return {DType::f32, {1}}; }
  SampleLayout target() const override { return {DType::i64, {}}; }

  void read(std::span<const std::int64_t> indices, void*, void*) const override {
    std::unique_lock lock(mutex_);
    until_ = now_ + (indices[0] % 8 == 7 ? options_.slow_read : options_.read);
    if (ahead_ == 0) now_ = until_;
    reading_ = true;
    changed_.notify_all();
    wait(lock, [&] { return now_ >= until_; });
    reading_ = false;
    ++done_;
    changed_.notify_all();
  }

  void tick() {
    std::unique_lock lock(mutex_);
    if (may_read()) wait(lock, [&] { return reading_; });
    ++now_;
    changed_.notify_all();
    wait(lock, [&] { return !reading_ || now_ < until_; });
  }
  /// Takes the next batch from the loader, after the ticks until it has been read.
  void take(DataLoader& loader) {
    while (ahead_ > 0 && done_ == taken_) tick();
    loader.next();
    ++taken_;
  }
  std::int64_t now() const { return now_; }

 private:
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition) const {
    check(changed_.wait_for(lock, std::chrono::minutes(1), condition), "the loader's thread does not read");
  }
  /// Whether the thread has room: it begins several batches at a time, half of those that may be ahead
  /// (data/prefetcher.h).
  bool may_read() const {
    const std::int64_t several = std::max<std::int64_t>(1, ahead_ / 2), first = done_ - done_ % several;
    return done_ < kBatches && taken_ + ahead_ - first >= std::min(several, kBatches - first);
  }

  Options options_;
  std::int64_t ahead_, taken_ = 0;
  mutable std::mutex mutex_;  // guards the members below
  mutable std::condition_variable changed_;
  mutable std::int64_t now_ = 0, until_ = 0, done_ = 0;
  mutable bool reading_ = false;
};

void show(const Options& options) {
  fmt::print("{} batches, each computed with for {} ticks; read in {}, every eighth in {}\n", kBatches,
             options.compute, options.read, options.slow_read);
  fmt::print("  {:<20} {:>14} {:>13} {:>13}\n", "", "batches waited", "ticks waited", "ticks in all");
  for (const std::int64_t ahead : {0, 1, 4, 16}) {
    const auto dataset = std::make_shared<SlowDataset>(options, ahead);
    DataLoader loader(dataset, std::make_shared<SequentialSampler>(kBatches),
                      {.batch_size = 1,
                       .prefetch_threads = ahead == 0 ? 0 : 1,
                       .prefetch_batches = std::max<std::int64_t>(ahead, 1)});
    loader.start_epoch(0);
    std::int64_t waits = 0, waited = 0;
    for (std::int64_t batch = 0; batch < kBatches; ++batch) {
      const std::int64_t asked = dataset->now();
      dataset->take(loader);
      waited += dataset->now() - asked;
      if (dataset->now() > asked) ++waits;
      for (std::int64_t tick = 0; tick < options.compute; ++tick) dataset->tick();
    }
    fmt::print("  {:<20} {:>14} {:>13} {:>13}\n",
               ahead == 0 ? "no thread" : fmt::format("a thread, {} ahead", ahead), waits, waited,
               dataset->now());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "The time that a model waits for data, in ticks of a simulated clock.\n"
      "Example: loader_waits --read 5");
  app.option("--read", between(options.read, 1, 1000), "ticks to read a batch");
  app.option("--slow-read", between(options.slow_read, 1, 1000), "ticks to read every eighth batch");
  app.option("--compute", between(options.compute, 0, 1000), "ticks to compute with a batch");
  return app.run(argc, argv, [&] { show(options); });
}
