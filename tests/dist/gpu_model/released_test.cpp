// Work::wait() releases an operation's tensors in stream order, so that their memory is free for the next
// operations; without it the tensors would be held until the operation is known to be complete.
#include "autograd/ops.h"
#include "core/memory.h"
#include "nn/layers.h"
#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

TEST_CASE("GPU model: what an update sends is released in the order of the stream", "[dist][gpu_model]") {
  const auto comm = this_run();
  if (comm->device().is_cpu()) return;
  ZeroTrainer trainer(comm, {.optimizer = "adamw"});
  trainer.parallel.promise_equal_ranks(true);
  const std::vector<MicroBatch> shares = shares_of("equal", comm->size());
  const std::int64_t samples = shares.back().first + shares.back().size;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Data data(samples, step);
    trainer.window.begin_with_all(samples);
    trainer.optimizer->zero_grad();
    trainer.backward(data, shares[static_cast<std::size_t>(comm->rank())]);
    const std::size_t before = memory_stats(comm->device()).live;
    trainer.parallel.finish();
    CHECK(memory_stats(comm->device()).live == before);
    trainer.optimizer->step();
  }
}

TEST_CASE("GPU model: ZeRO 1: values that nothing reads after a step are released with their arena",
          "[dist][gpu_model]") {
  const auto comm = this_run();
  if (comm->device().is_cpu()) return;
  const auto parameters = [&] {
    return memory_stats(comm->device()).live_by_category[MemoryCategory::parameters];
  };
  const std::vector<MicroBatch> shares = shares_of("equal", comm->size());
  const std::int64_t samples = shares.back().first + shares.back().size;
  const std::size_t before = parameters();
  {
    ZeroTrainer trainer(comm, {.stage = 1});
    trainer.parallel.promise_equal_ranks(true);
    trainer.window.begin_with_all(samples);
    trainer.optimizer->zero_grad();
    trainer.backward(Data(samples, 1), shares[static_cast<std::size_t>(comm->rank())]);
    trainer.parallel.finish();
    trainer.optimizer->step();  // begins to gather the values
    CHECK(parameters() > before);
  }
  CHECK(parameters() == before);
}

TEST_CASE("GPU model: ZeRO 3: a unit gathered in vain is released with the others", "[dist][gpu_model]") {
  const auto comm = this_run();
  if (comm->device().is_cpu() || comm->size() == 1) return;
  const auto first = std::make_shared<Linear>(4, 4), second = std::make_shared<Linear>(4, 4);
  Sequential model({first, second});
  ParameterArena arena(model, comm->device(), DType::f32, sharding_of(*comm, 3, 1));
  DataParallelOptions options;
  options.allow_unused = true;
  DataParallel parallel(model, arena, comm, options);
  const Tensor x = tensor_of({1, 2, 3, 4}, {1, 4}, DType::f32, comm->device());
  const auto parameters = [&] {
    return memory_stats(comm->device()).live_by_category[MemoryCategory::parameters];
  };
  const std::size_t before = parameters();
  for (int step = 0; step < 2; ++step) {
    const TapeScope scope;
    const Tensor y = (*first)(x);  // begins to gather the second
    CHECK(parameters() > before);
    sum(y).backward();
    parallel.finish();
    CHECK(parameters() == before);
  }
}
