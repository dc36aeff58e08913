#include <functional>

#include "autograd/tape.h"
#include "core/memory.h"
#include "data/loader.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/checkpoint_folder.h"
#include "optim/clip.h"
#include "optim/registry.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

constexpr std::int64_t kSamples = 50;
constexpr std::int64_t kBatch = 16;  // 4 updates an epoch, of 16, 16, 16 and 2 samples
constexpr std::int64_t kMicroBatch = 6;
constexpr std::int64_t kSteps = 11;

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ParameterArena&)>;

std::shared_ptr<const Dataset> samples() {
  return std::make_shared<TensorDataset>(tensor_of(random_doubles(kSamples * 8, 1), {kSamples, 8}),
                                         tensor_of(random_doubles(kSamples, 2), {kSamples, 1}));
}

/// A small training run, as a program would write it.
struct Training {
  Training(MakeOptimizer make_optimizer, Device on)
      : device(on),
        model((manual_seed(3), make_mlp({8, 12, 1}))),
        arena(*model, on),
        optimizer(make_optimizer(arena)),
        loader(samples(), std::make_shared<RandomSampler>(kSamples, 4), {.batch_size = kBatch}) {}

  CheckpointContents state() {
    CheckpointContents state;
    state.position = position;
    state.random = default_generator();
    for (const NamedParameter& parameter : model->named_parameters()) {
      state.tensors.push_back({"model." + parameter.name, *parameter.tensor});
    }
    for (const NamedTensor& tensor : optimizer->state()) {
      state.tensors.push_back({"optimizer." + tensor.name, tensor.tensor});
    }
    return state;
  }

  void resume(const Checkpoint& checkpoint) {
    checkpoint.load_into(state().tensors);
    position = checkpoint.position();
    default_generator() = checkpoint.random();
  }

  /// Updates until `position.step` is `last`.
  void run_to(std::int64_t last) {
    const Schedule rate = schedule::cosine(0.05, kSteps);
    loader.start_epoch(position.epoch, position.samples);
    while (position.step < last) {
      const std::optional<Batch> batch = loader.next();
      if (!batch) {
        position.samples = 0;
        loader.start_epoch(++position.epoch);
        continue;
      }
      optimizer->set_learning_rate(rate(position.step));
      update(*batch);
      ++position.step;
      position.samples += batch->size();
    }
  }

  void update(const Batch& batch) {
    window.begin(batch.size());
    optimizer->zero_grad();
    for (const MicroBatch& piece : cut_into_micro_batches(batch.size(), kMicroBatch)) {
      const TapeScope scope;
      const auto [features, targets] = batch.slice(piece.first, piece.size).to(device);
      const Tensor noise = scale(rand(features.shape(), DType::f32, device), 0.1);
      mse_loss((*model)(add(features, noise)), targets, Reduction::sum, window.divisor()).backward();
    }
    clip_grad_norm(arena, 0.5);
    optimizer->step();
  }

  Device device;
  std::shared_ptr<Sequential> model;
  ParameterArena arena;
  std::unique_ptr<Optimizer> optimizer;
  DataLoader loader;
  AccumulationWindow window;
  TrainingPosition position;
};

/// The bits of everything that training changes.
std::string result_of(Training& training) {
  std::string bits;
  for (const NamedTensor& tensor : training.state().tensors) {
    const Tensor host = copy_to(tensor.tensor, Device{});
    bits.append(static_cast<const char*>(host.raw()), host.bytes());
  }
  return bits;
}

void check_resuming(const MakeOptimizer& make_optimizer, Device device) {
  Training uninterrupted(make_optimizer, device);
  uninterrupted.run_to(kSteps);
  const std::string expected = result_of(uninterrupted);

  // Before the first update, within an epoch, before and at its end, and after the last update.
  for (const std::int64_t stop : {0, 1, 3, 4, 6, 11}) {
    INFO("stopped after " << stop << " updates");
    const TemporaryFolder folder;
    CheckpointFolder checkpoints(folder.path(), 1);
    {
      Training killed(make_optimizer, device);
      killed.run_to(stop);
      checkpoints.save(killed.state());
    }
    Training resumed(make_optimizer, device);
    resumed.resume(*checkpoints.newest());
    resumed.run_to(kSteps);
    CHECK((result_of(resumed) == expected));
  }
}

/// Every optimizer with the default settings of training runs, and SGD without momentum.
void check_resuming(Device device) {
  for (const OptimizerKind& kind : optimizers()) {
    INFO(kind.name);
    check_resuming([&](ParameterArena& arena) { return kind.make(arena, kind.defaults, {}); }, device);
  }
  check_resuming([](ParameterArena& arena) { return std::make_unique<SGD>(arena); }, device);
}

TEST_CASE("a run resumed from a checkpoint ends with the bits of the uninterrupted run", "[resume]") {
  check_resuming(Device{});
}

GPU_TEST_CASE("a run on the GPU resumed from a checkpoint ends with the bits of the uninterrupted run",
              "[resume]") {
  check_resuming(Device::parse("cuda"));
}

}  // namespace
}  // namespace ringtape::test
