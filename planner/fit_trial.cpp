#include "planner/fit_trial.h"

#include <chrono>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/stream.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/registry.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Model, optimizer and data of an update, on the device.
class Trainer {
 public:
  Trainer(const TrialModel& trial, Device device, std::int64_t micro_batch)
      : model_(make_mlp(trial.sizes)), arena_(*model_, device, trial.compute) {
    model_->set_recompute(2 * trial.recompute);  // a layer is a Linear and its ReLU
    const OptimizerKind& kind = optimizer_named(trial.optimizer);
    optimizer_ = kind.make(arena_, kind.defaults, {no_decay_below_two_dimensions()});
    const MemoryScope scope(MemoryCategory::data);
    x_ = randn({micro_batch, trial.sizes.front()}, trial.compute, device);
    targets_ = zeros({micro_batch}, DType::i64, device);
  }

  /// Ends when the device has finished.
  void update() {
    arena_.zero_grad();
    const Tensor loss = cross_entropy((*model_)(x_), targets_);
    loss.backward();
    optimizer_->step();
    Stream::current(arena_.device()).synchronize();
  }

 private:
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor x_, targets_;
};

}  // namespace

MemoryCap::MemoryCap(Device device, std::int64_t bytes) : device_(device) {
  set_memory_limit(device, static_cast<std::size_t>(bytes));
}

MemoryCap::~MemoryCap() {
  set_memory_limit(device_, 0);
}

FitTrial try_micro_batch(const TrialModel& model, Device device, std::int64_t micro_batch, double seconds) {
  FitTrial result{.micro_batch = micro_batch};
  try {
    const TapeScope scope;  // clears the tape after a forward that ran out of memory
    manual_seed(0);
    Trainer trainer(model, device, micro_batch);
    reset_peak_memory(device);
    trainer.update();
    result.bytes = static_cast<std::int64_t>(memory_stats(device).peak);
    std::int64_t updates = 0;
    const Clock::time_point start = Clock::now();
    while (updates == 0 || seconds_since(start) < seconds) {
      trainer.update();
      ++updates;
    }
    result.samples_per_second = static_cast<double>(product(updates, micro_batch)) / seconds_since(start);
    result.fits = true;
  } catch (const OutOfMemoryError&) {
    result.bytes.reset();
  }
  empty_cache(device);
  return result;
}

}  // namespace ringtape::planner
