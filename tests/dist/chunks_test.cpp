// Two chunks of one pipeline stage: what data parallelism does for each chunk separately.
#include "dist/data_parallel.h"
#include "nn/layers.h"
#include "nn/stages.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

/// Two layers, each a chunk of one stage.
struct TwoChunks : Module {
  TwoChunks() {
    for (const auto& [name, layer] : {std::pair("first", first), std::pair("second", second)})
      register_module(name, layer);
    stages.divide({1, 1});
    stages.add(0, "first", *first);
    stages.add(1, "second", *second);
  }
  Tensor forward(const Tensor& x) override { return (*second)((*first)(x)); }

  std::vector<Module*> fsdp_units() override { return {first.get(), second.get()}; }

  std::shared_ptr<Linear> first = std::make_shared<Linear>(8, 8), second = std::make_shared<Linear>(8, 8);
  Stages stages{{.stage = 0, .stages = 1, .chunks = 2}};
};

}  // namespace

TEST_CASE("chunks: one whose last backward was inside no_sync is reduced when the window ends",
          "[dist][ddp][stages]") {
  const auto comm = this_run();
  for (const bool overlap : {true, false}) {
    INFO("overlap " << overlap);
    TwoChunks model;
    ParameterArena arena(model, comm->device(), DType::f32, ArenaSharding{.stages = &model.stages});
    DataParallel parallel(
        model, arena, comm,
        {.bucket_sizes = {1024, 1024}, .overlap = overlap, .allow_unused = false, .hook = nullptr});
    const Tensor x = full({3, 8}, comm->rank() + 1.0, DType::f32, comm->device());
    const auto backward = [&](Linear& layer) {
      const TapeScope scope;
      sum(layer(x)).backward();
    };
    {
      const auto no_sync = parallel.no_sync();
      backward(*model.second);
    }
    backward(*model.first);
    parallel.finish();

    // A weight's gradient is 3 (r + 1), from 3 rows: the mean over ranks r. A bias's is the number of rows.
    const double mean = 3 * (comm->size() + 1) / 2.0;
    for (const auto& [name, parameter] : model.named_parameters()) {
      INFO(name);
      const double expected = name.ends_with("bias") ? 3 : mean;
      const std::vector<double> found = parameter->grad().to_doubles();
      CHECK(found == std::vector<double>(found.size(), expected));
    }
  }
}

TEST_CASE("chunks: under ZeRO 3 the forward of a chunk gathers none of another", "[dist][zero][stages]") {
  const auto comm = this_run();
  TwoChunks model;
  ParameterArena arena(
      model, comm->device(), DType::f32,
      ArenaSharding{
          .zero_stage = 3, .rank = comm->rank(), .world_size = comm->size(), .stages = &model.stages});
  DataParallel parallel(model, arena, comm);
  const auto gathers = [&] {
    return comm->collectives()[static_cast<std::size_t>(CommOperation::all_gather)].calls;
  };
  const Tensor x = full({3, 8}, 1.0, DType::f32, comm->device());
  for (Linear* const layer : {model.first.get(), model.second.get()}) {
    const std::uint64_t before = gathers();
    (*layer)(x);
    CHECK(gathers() - before == 1);
  }
}
