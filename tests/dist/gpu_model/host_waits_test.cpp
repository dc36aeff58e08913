#include <gpu_model/model.h>

#include "data/loader.h"
#include "dist/self_communicator.h"
#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"
#include "train/update.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

/// The number of calls in which the host waits while `body` runs.
template <class Body>
int waits_in(const Body& body) {
  const int before = gpu_model::host_waits();
  body();
  return gpu_model::host_waits() - before;
}

/// The waits of a window of two micro-batches and its step, the third of three.
int waits_of_window(const std::shared_ptr<Communicator>& comm, int stage) {
  ZeroTrainer trainer(comm, {.stage = stage, .optimizer = "adamw", .clip_norm = 1});
  trainer.parallel.promise_equal_ranks(true);
  const std::vector<MicroBatch> shares = shares_of("equal", comm->size());
  const auto own = cut(shares[static_cast<std::size_t>(comm->rank())], 2);
  int waits = 0;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Data data(shares.back().first + shares.back().size, step);
    waits = waits_in([&] {
      trainer.window.begin_with_all(shares.back().first + shares.back().size);
      trainer.optimizer->zero_grad();
      for (std::size_t i = 0; i < own.size(); ++i) {
        const auto scope = trainer.parallel.no_sync(i + 1 < own.size());
        trainer.backward(data, own[i]);
      }
      trainer.parallel.finish();
      trainer.optimizer->step();
    });
  }
  return waits;
}

/// The waits of the third update of a run with six samples per rank.
int waits_of_update(const std::shared_ptr<Communicator>& comm, int stage) {
  const std::int64_t samples = 6 * comm->size();
  manual_seed(3);
  const auto data = std::make_shared<TensorDataset>(randn({3 * samples, 4}), randn({3 * samples, 1}));
  const Task task = regression_task("", data, data);
  TrainerOptions options;
  options.accumulation.micro_batch = 4;
  const auto model = make_mlp({4, 8, 1});
  ParameterArena arena(*model, comm->device(), DType::f32, sharding_of(*comm, stage, 64));
  SGD optimizer(arena, {.learning_rate = 0.1});
  Update update(task, options, *model, arena, optimizer, nullptr, true, Mesh(comm, {.data = comm->size()}));
  const auto sampler = std::make_shared<DistributedSampler>(std::make_shared<SequentialSampler>(3 * samples),
                                                            comm->rank(), comm->size());
  DataLoader loader(data, sampler, {.batch_size = 6, .device = comm->device()});
  loader.start_epoch(0);
  int waits = 0;
  for (int step = 0; step < 3; ++step) {
    const std::optional<Batch> batch = loader.next();
    waits = waits_in([&] { update(batch, samples); });
  }
  return waits;
}

}  // namespace

TEST_CASE("GPU model: with equal ranks the host waits no more often than with one", "[dist][gpu_model]") {
  const auto comm = this_run();
  if (comm->device().is_cpu()) return;
  const auto alone = std::make_shared<SelfCommunicator>(comm->device());
  for (const int stage : {0, 1, 2}) {
    INFO("stage " << stage);
    CHECK(waits_of_window(comm, stage) == waits_of_window(alone, stage));
    CHECK(waits_of_update(alone, stage) == 0);
    CHECK(waits_of_update(comm, stage) == 0);
  }
}
