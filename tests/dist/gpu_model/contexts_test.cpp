#include <gpu_model/model.h>

#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

TEST_CASE("GPU model: a rank opens a context on its own GPU alone, in every thread", "[dist][gpu_model]") {
  const auto comm = this_run();
  if (comm->device().is_cpu()) return;
  ZeroTrainer trainer(comm, {.stage = 2, .optimizer = "adamw", .clip_norm = 1});
  const std::vector<MicroBatch> shares = shares_of("equal", comm->size());
  trainer.accumulate(Data(shares.back().first + shares.back().size, 1),
                     cut(shares[static_cast<std::size_t>(comm->rank())], 2), true);
  trainer.step();
  comm->barrier();
  CHECK(gpu_model::contexts_opened() == 1);
}
