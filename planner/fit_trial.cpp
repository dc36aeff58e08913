#include "planner/fit_trial.h"

#include <chrono>
#include <memory>
#include <utility>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/stream.h"
#include "nn/arena.h"
#include "nn/gpt.h"
#include "nn/layers.h"
#include "planner/numbers.h"
#include "planner/transformer.h"
#include "trace/timing.h"

namespace ringtape::planner {
namespace {

std::shared_ptr<Module> make_model(const TrialModel& trial) {
  if (trial.gpt) {
    check_sizes(*trial.gpt);
    auto gpt = std::make_shared<GPT>(*trial.gpt);
    gpt->set_recompute(trial.recompute);
    return gpt;
  }
  auto mlp = make_mlp(trial.sizes);
  mlp->set_recompute(2 * trial.recompute);  // a layer is a Linear and its ReLU
  return mlp;
}

/// Uniform in [0, classes), as the tokens and targets of training are spread over the embeddings' memory.
Tensor random_classes(Shape shape, std::int64_t classes, DType dtype, Device device) {
  return to(rand(std::move(shape), DType::f32, device, 0, static_cast<double>(classes)), dtype);
}

/// The model, optimizer and data of an update, on the device.
class TrialRun {
 public:
  TrialRun(const TrialModel& trial, Device device, std::int64_t micro_batch)
      : model_(make_model(trial)), arena_(*model_, device, trial.compute) {
    optimizer_ = trial.optimizer->make(arena_, trial.optimizer->defaults, {no_decay_below_two_dimensions()});
    const MemoryScope scope(MemoryCategory::data);
    if (trial.gpt) {
      x_ = random_classes({micro_batch, trial.gpt->context}, trial.gpt->vocabulary, DType::i32, device);
      targets_ =
          random_classes({micro_batch * trial.gpt->context}, trial.gpt->vocabulary, DType::i32, device);
    } else {
      x_ = randn({micro_batch, trial.sizes.front()}, trial.compute, device);
      targets_ = random_classes({micro_batch}, trial.sizes.back(), DType::i64, device);
    }
  }

  /// Returns when the device has finished.
  void update() {
    arena_.zero_grad();
    loss().backward();
    optimizer_->step();
    Stream::current(arena_.device()).synchronize();
  }

 private:
  Tensor loss() {
    Tensor logits = (*model_)(x_);
    if (logits.dims() == 3) logits = view(logits, {-1, logits.size(2)});
    return cross_entropy(std::move(logits), targets_);
  }

  std::shared_ptr<Module> model_;
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
    TrialRun run(model, device, micro_batch);
    reset_peak_memory(device);
    run.update();
    result.bytes = static_cast<std::int64_t>(memory_stats(device).peak);
    std::int64_t updates = 0;
    const auto start = std::chrono::steady_clock::now();
    while (updates == 0 || seconds_since(start) < seconds) {
      run.update();
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
