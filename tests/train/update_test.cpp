#include "train/update.h"

#include "autograd/creation.h"
#include "data/dataset.h"
#include "dist/self_communicator.h"
#include "nn/layers.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"

namespace ringtape::test {

TEST_CASE("updates are replayed as graphs for the first four numbers of targets only", "[train]") {
  const auto data = std::make_shared<TensorDataset>(randn({8, 3}), randn({8, 1}));
  Task task = regression_task("", data, data);
  std::int64_t targets = 0;
  task.count_targets = [&](const Batch&) { return targets; };
  TrainerOptions options;
  options.graph = true;
  const auto model = make_mlp({3, 1});
  ParameterArena arena(*model, Device{});
  SGD optimizer(arena, {.learning_rate = 0.1});
  Update update(task, options, *model, arena, optimizer, nullptr, false,
                Mesh(std::make_shared<SelfCommunicator>(Device{}), {}));
  DataLoader loader(data, std::make_shared<RandomSampler>(8, 0), {.batch_size = 8});
  loader.start_epoch(0);
  const std::optional<Batch> batch = loader.next();
  for (targets = 1; targets <= 4; ++targets)
    CHECK(update(batch, 8).targets == targets);  // the first time without a graph
  for (targets = 5; targets <= 9; ++targets) {
    CHECK_NOTHROW(update(batch, 8));
    CHECK_NOTHROW(update(batch, 8));
  }
  // The second time the update is captured, which a CPU cannot do.
  for (targets = 1; targets <= 4; ++targets) {
    CHECK_THROWS_WITH(update(batch, 8), ContainsSubstring("graph"));
  }
}

}  // namespace ringtape::test
