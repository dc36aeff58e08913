#include <limits>

#include "autograd/low_precision.h"
#include "autograd/ops.h"
#include "core/memory.h"
#include "optim/adam.h"
#include "tests/dist/late_communicator.h"
#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/error_of.h"
#include "tests/support/memory.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

using Values = std::vector<std::vector<double>>;

/// Element by element to 1e-6 of the largest of each parameter.
void check_same(const Values& found, const Values& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("parameter " << i);
    check_close(found[i], expected[i], 0, 1e-6 * largest_of(expected[i]));
  }
}

/// How each rank's samples go through the model.
struct Way {
  std::string shares = "equal";
  std::int64_t pieces = 1;
  bool no_sync = true;
  bool ignored = false;
};

struct Result {
  Values values;
  std::vector<double> norms;
};

/// `steps` updates.
Result train(const std::shared_ptr<Communicator>& comm, const ZeroOptions& options, const Way& way,
             std::uint64_t steps = 3) {
  const std::vector<MicroBatch> shares = shares_of(way.shares, comm->size());
  ZeroTrainer trainer(comm, options);
  trainer.parallel.promise_equal_ranks(way.shares == "equal");
  Result result;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const Data data(shares.back().first + shares.back().size, step, way.ignored);
    trainer.accumulate(data, cut(shares[static_cast<std::size_t>(comm->rank())], way.pieces), way.no_sync);
    result.norms.push_back(trainer.step());
  }
  result.values = trainer.values();
  return result;
}

Result train(const std::shared_ptr<Communicator>& comm, ZeroOptions options, int stage, const Way& way) {
  options.stage = stage;
  return train(comm, options, way);
}

std::size_t live(Device device, MemoryCategory category) {
  return memory_stats(device).live_by_category[category];
}

}  // namespace

TEST_CASE("ZeRO: training gives the weights of plain data parallelism", "[dist][zero]") {
  const std::vector<Way> ways = {{"equal", 1, true, false},
                                 {"equal", 3, true, true},
                                 {"unequal", 3, false, true},
                                 {"empty", 2, true, false}};
  for (const auto& [name, comm] : all_communicators()) {
    for (const Way& way : ways) {
      if (way.shares == "empty" && comm->size() == 1) continue;
      for (const std::string& optimizer : optimizer_names()) {
        for (const double clip_norm : {0.0, 0.05}) {
          if (in_few_ways() && (clip_norm > 0) != (way.pieces == 3)) continue;
          const ZeroOptions options{.optimizer = optimizer, .clip_norm = clip_norm};
          const Result plain = train(comm, options, 0, way);
          for (const int stage : {1, 2, 3}) {
            if (stage == 3 && way.shares == "empty") continue;  // all ranks run the same forwards
            INFO(name << ", stage " << stage << ", " << optimizer << ", clipped to " << clip_norm << ", "
                      << way.shares << " shares in " << way.pieces << " pieces, no_sync " << way.no_sync);
            const Result found = train(comm, options, stage, way);
            check_same(found.values, plain.values);
            check_close(found.norms, plain.norms, 1e-6);
            if (clip_norm > 0) CHECK(plain.norms[0] > 2 * clip_norm);
          }
        }
      }
    }
  }
}

TEST_CASE("ZeRO: the same bits where the same numbers are added", "[dist][zero]") {
  const auto comm = this_run();
  if (comm->size() > 2) return;  // the order of three additions is the communicator's
  for (const std::string optimizer : {"sgd", "adamw"}) {
    for (const int stage : {1, 2, 3}) {
      // Stages 2 and 3 sum the means of micro-batches, where the others take the mean of sums.
      const Way way{"unequal", stage == 1 ? 3 : 1, true, true};
      INFO("stage " << stage << ", " << optimizer);
      CHECK(train(comm, {.optimizer = optimizer}, stage, way).values ==
            train(comm, {.optimizer = optimizer}, 0, way).values);
    }
  }
}

TEST_CASE("ZeRO: norms of every type are those of all ranks' gradients", "[dist][zero]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (const double type : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
      const ZeroOptions options{.clip_norm = 0.05, .clip_norm_type = type};
      const Way way{"unequal", 2, true, false};
      const Result plain = train(comm, options, 0, way);
      for (const int stage : {1, 2, 3}) {
        INFO(name << ", stage " << stage << ", norm of type " << type);
        const Result found = train(comm, options, stage, way);
        check_close(found.norms, plain.norms, 1e-6);
        check_same(found.values, plain.values);
      }
    }
  }
}

TEST_CASE("ZeRO: clip_grad_value clips the rank's own slices", "[dist][zero]") {
  const auto comm = this_run();
  const std::vector<MicroBatch> shares = shares_of("equal", comm->size());
  const auto own = cut(shares[static_cast<std::size_t>(comm->rank())], 2);
  std::vector<Values> results;
  for (const int stage : {0, 1, 2, 3}) {
    ZeroTrainer trainer(comm, {.stage = stage});
    trainer.accumulate(Data(shares.back().first + shares.back().size, 1), own, true);
    clip_grad_value(trainer.arena, 0.01);
    trainer.step();
    results.push_back(trainer.values());
  }
  check_same(results[1], results[0]);
  check_same(results[2], results[0]);
  check_same(results[3], results[0]);
}

TEST_CASE("ZeRO: 16-bit copies and f32 values are those of plain data parallelism", "[dist][zero]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const std::string optimizer : {"adamw", "lamb"}) {
        const Way way{"equal", 1, true, false};
        for (const int stage : {1, 2}) {
          INFO(name << ", stage " << stage << ", " << name_of(dtype) << ", " << optimizer);
          ZeroTrainer trainer(comm,
                              {.stage = stage, .optimizer = optimizer, .dtype = dtype, .clip_norm = 0.05});
          ZeroTrainer same(comm, {.stage = 0, .optimizer = optimizer, .dtype = dtype, .clip_norm = 0.05});
          const std::vector<MicroBatch> shares = shares_of(way.shares, comm->size());
          const auto own = cut(shares[static_cast<std::size_t>(comm->rank())], way.pieces);
          for (std::uint64_t step = 0; step < 2; ++step) {
            const Data data(shares.back().first + shares.back().size, step);
            for (ZeroTrainer* each : {&trainer, &same}) {
              each->accumulate(data, own, true);
              each->step();
            }
          }
          // The computing copy is complete before gather_values().
          for (std::size_t i = 0; i < trainer.arena.entries().size(); ++i) {
            const Tensor copy = in_dtype(*trainer.arena.entries()[i].tensor, dtype);
            const Tensor expected = in_dtype(*same.arena.entries()[i].tensor, dtype);
            check_close(copy.to_doubles(), expected.to_doubles(), 2 * rounding_of(dtype));
          }
          const Values values = trainer.values();
          for (std::size_t i = 0; i < values.size(); ++i) {
            const std::vector<double> of_copy =
                in_dtype(*trainer.arena.entries()[i].tensor, dtype).to_doubles();
            check_close(of_copy, values[i], rounding_of(dtype), 1e-7);
          }
          const Values of_plain = same.values();
          if (comm->size() <= 2) CHECK(values == of_plain);  // see "the same bits" above
          REQUIRE(values.size() == of_plain.size());
          for (std::size_t i = 0; i < values.size(); ++i) {
            check_close(values[i], of_plain[i], 0, 1e-4 * largest_of(of_plain[i]));
          }
        }
      }
    }
  }
}

TEST_CASE("ZeRO: an overflow on one rank makes all ranks skip", "[dist][zero]") {
  const auto comm = this_run();
  const std::vector<MicroBatch> shares = shares_of("equal", comm->size());
  const auto own = cut(shares[static_cast<std::size_t>(comm->rank())], 2);
  for (const int stage : {1, 2, 3}) {
    for (const double type : {2.0, std::numeric_limits<double>::infinity()}) {
      for (const float bad : {INFINITY, NAN}) {
        INFO("stage " << stage << ", norm of type " << type << ", " << bad);
        ZeroTrainer trainer(comm, {.stage = stage,
                                   .optimizer = "adamw",
                                   .dtype = DType::f16,
                                   .clip_norm = 1,
                                   .clip_norm_type = type});
        Data data(shares.back().first + shares.back().size, 1);
        const Values before = trainer.values();
        const double scale = trainer.scaler->scale().item();
        if (comm->rank() == comm->size() - 1) {
          data.x[static_cast<std::size_t>(own.back().first * kInputs)] = bad;
        }
        trainer.accumulate(data, own, true);
        CHECK(!std::isfinite(trainer.step()));
        CHECK(trainer.values() == before);
        CHECK(trainer.optimizer->skipped_updates().item() == 1);
        CHECK(trainer.scaler->scale().item() == scale / 2);

        // The next update is that of a trainer that has had no other, with the same scale.
        ZeroTrainer fresh(comm, trainer.options);
        Tensor fresh_scale = fresh.scaler->state()[0].tensor;
        fresh_scale.copy_from(full({}, scale / 2, DType::f32, comm->device()));
        fresh.scaler->loaded();
        std::vector<double> norms;
        for (ZeroTrainer* each : {&trainer, &fresh}) {
          each->accumulate(Data(shares.back().first + shares.back().size, 2), own, true);
          norms.push_back(each->step());
        }
        CHECK(std::isfinite(norms[0]));
        CHECK(norms[0] == norms[1]);
        CHECK(trainer.values() != before);
        CHECK(trainer.values() == fresh.values());
      }
    }
  }
}

TEST_CASE("ZeRO: a rank holds the state of its shard, in stage 2 the gradients too", "[dist][zero]") {
  const auto comm = this_run();
  const Device device = comm->device();
  const std::vector<MicroBatch> shares = shares_of("equal", comm->size());
  const auto own = cut(shares[static_cast<std::size_t>(comm->rank())], 2);
  for (const int stage : {0, 1, 2}) {
    INFO("stage " << stage);
    const std::size_t states = live(device, MemoryCategory::optimizer_state);
    const std::size_t gradients = live(device, MemoryCategory::gradients);
    ZeroTrainer trainer(comm, {.stage = stage,
                               .optimizer = "adamw",
                               .bucket_sizes = {4096, 4096},
                               .hidden = {64, 64, 64, 64, 64, 64, 64, 64}});
    const auto all = static_cast<std::size_t>(trainer.arena.size()) * sizeof(float);
    const auto n = static_cast<std::size_t>(comm->size());
    const std::size_t shard = stage == 0 ? all : all / n;
    CHECK(live(device, MemoryCategory::optimizer_state) - states == 2 * shard);
    CHECK(live(device, MemoryCategory::gradients) - gradients == (stage == 2 ? shard : all));

    std::size_t largest = 0;  // two neighbouring buckets
    const std::vector<GradientBucket>& buckets = trainer.parallel.buckets();
    for (std::size_t b = 1; b < buckets.size(); ++b) {
      largest = std::max(
          largest, static_cast<std::size_t>(buckets[b - 1].elements + buckets[b].elements) * sizeof(float));
    }
    const std::size_t peak = peak_of(MemoryCategory::gradients, device, [&] {
      for (std::uint64_t step = 0; step < 2; ++step) {
        trainer.accumulate(Data(shares.back().first + shares.back().size, step), own, true);
        trainer.step();
      }
    });
    CHECK(peak - gradients == (stage == 2 ? shard + largest : all));
    if (stage == 2 && n > 1) CHECK(peak - gradients < all);
    CHECK(trainer.parallel.max_bucket_buffers() == (stage == 2 ? 2 : 0));
  }
}

TEST_CASE("ZeRO 2: ranks run different numbers of backwards", "[dist][zero]") {
  const auto comm = this_run();
  const std::vector<MicroBatch> shares = shares_of("unequal", comm->size());
  const std::int64_t pieces = 1 + 2 * (comm->rank() % 2);
  std::vector<Values> results;
  for (const int stage : {0, 2}) {
    ZeroTrainer trainer(comm, {.stage = stage, .optimizer = "adamw"});
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Data data(shares.back().first + shares.back().size, step);
      trainer.accumulate(data, cut(shares[static_cast<std::size_t>(comm->rank())], pieces), true);
      trainer.step();
    }
    results.push_back(trainer.values());
  }
  check_same(results[1], results[0]);
}

TEST_CASE("ZeRO: finish() reduces what came after the last reduction, and once more changes nothing",
          "[dist][zero]") {
  const auto comm = this_run();
  const std::int64_t first = 4 * comm->rank();
  const Data data(4 * comm->size(), 1);
  std::vector<Values> results;
  for (const int stage : {0, 1, 2}) {
    ZeroTrainer trainer(comm, {.stage = stage, .clip_norm = 1e6});
    trainer.window.begin(4);
    trainer.backward(data, {first, 1});
    trainer.parallel.finish();
    trainer.parallel.finish();
    {
      const auto scope = trainer.parallel.no_sync();
      trainer.backward(data, {first + 1, 3});
    }
    trainer.parallel.finish();
    trainer.parallel.finish();
    trainer.step();
    results.push_back(trainer.values());
  }
  check_same(results[1], results[0]);
  check_same(results[2], results[0]);
}

TEST_CASE("ZeRO: the gradient of a parameter that a rank did not use counts as 0 there", "[dist][zero]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (const int stage : {1, 2}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        INFO(name << ", stage " << stage << ", " << name_of(dtype));
        manual_seed(1);
        TwoBranches model;
        ParameterArena arena(model, comm->device(), dtype, sharding_of(*comm, stage, 1));
        SGD optimizer(arena, {.learning_rate = 1});
        DataParallel parallel(model, arena, comm);
        const std::vector<double> first = model.first->named_parameters()[1].tensor->to_doubles();
        const std::vector<double> second = model.second->named_parameters()[0].tensor->to_doubles();
        for (int window = 0; window < 2; ++window) {
          optimizer.zero_grad();
          // "first" is used only on rank 0, and only in the first of two micro-batches.
          for (const bool last : {false, true}) {
            const TapeScope scope;
            const auto no_sync = parallel.no_sync(!last);
            model.with_first = comm->rank() == 0 && !last;
            const Tensor y = model(tensor_of({1, 2, 3}, {1, 3}, dtype, comm->device()));
            sum(to(y, DType::f32)).backward();
          }
          parallel.finish();
          optimizer.step();
        }
        // Two steps of the mean gradient: of the bias 1 on rank 0, of the weight [1, 2, 3] twice a window.
        const double share = 2.0 / comm->size();
        // A rank that has not used "first" yet has the other ranks' values only in 16 bits.
        const Tensor copy = in_dtype(model.parameter("first.bias"), dtype);
        check_close(copy.to_doubles(), {first[0] - share, first[1] - share}, 2 * rounding_of(dtype), 1e-6);
        arena.gather_values();
        check_close(model.parameter("first.bias").to_doubles(), {first[0] - share, first[1] - share}, 1e-6,
                    1e-6);
        const std::vector<double> weight = model.parameter("second.weight").to_doubles();
        for (std::size_t i = 0; i < 6; ++i) {
          CHECK(weight[i] == Approx(second[i] - 4.0 * static_cast<double>(1 + i % 3)).epsilon(1e-6));
        }
      }
    }
  }
}

TEST_CASE("ZeRO: a parameter that no rank used is an error, or keeps value and state", "[dist][zero]") {
  const auto comm = this_run();
  for (const int stage : {1, 2}) {
    for (const bool allow_unused : {false, true}) {
      INFO("stage " << stage << ", allowed " << allow_unused);
      TwoBranches model;
      ParameterArena arena(model, comm->device(), DType::f32, sharding_of(*comm, stage, 1));
      AdamW optimizer(arena);
      DataParallel parallel(
          model, arena, comm,
          {.bucket_sizes = {}, .overlap = true, .allow_unused = allow_unused, .hook = nullptr});
      model.backward(comm->device());
      parallel.finish();
      optimizer.step();
      optimizer.zero_grad();
      model.with_first = false;
      model.backward(comm->device());
      const std::string error = error_of([&] { parallel.finish(); });
      CHECK((error.find("first.bias, first.weight") != std::string::npos) == !allow_unused);
      const std::vector<double> before = model.parameter("first.weight").to_doubles();
      const std::vector<double> other = model.parameter("second.weight").to_doubles();
      optimizer.step();
      CHECK(model.parameter("first.weight").to_doubles() == before);
      CHECK(model.parameter("second.weight").to_doubles() != other);
      const std::vector<NamedTensor> state = optimizer.state();
      CHECK(state[2].tensor.to_doubles() == std::vector<double>{2, 2, 1, 1});  // steps, the last layer first
    }
  }
}

TEST_CASE("ZeRO 2: a bucket that is not complete makes the others wait, each in a buffer", "[dist][zero]") {
  const auto comm = this_run();
  TwoBranches model;
  ParameterArena arena(model, comm->device(), DType::f32, sharding_of(*comm, 2, 1));
  DataParallel parallel(model, arena, comm,
                        {.bucket_sizes = {}, .overlap = true, .allow_unused = true, .hook = nullptr});
  REQUIRE(parallel.buckets().size() == 4);
  model.with_second = false;  // whose gradients come first in the arena
  model.backward(comm->device());
  CHECK(parallel.max_bucket_buffers() == 3);  // those of "first", and the zeros to be sent before them
  parallel.finish();
  CHECK(!model.parameter("first.bias").grad().defined());

  // Backward reaches "first" before "second": no bucket can be sent until the end of backward.
  arena.zero_grad();
  model.with_second = true;
  const Tensor x = tensor_of({1, 2, 3}, {1, 3}, DType::f32, comm->device());
  const Tensor early = (*model.second)(x);
  sum(add((*model.first)(x), early)).backward();
  CHECK(parallel.max_bucket_buffers() == 4);
  parallel.finish();
}

TEST_CASE("ZeRO: a step's values arrive where the next forward reads them", "[dist][zero]") {
  const auto comm = this_run();
  const std::vector<MicroBatch> shares = shares_of("equal", comm->size());
  const auto own = cut(shares[static_cast<std::size_t>(comm->rank())], 1);
  const Data data(shares.back().first + shares.back().size, 1);
  for (const int stage : {1, 2}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO("stage " << stage << ", " << name_of(dtype));
      ZeroTrainer trainer(comm, {.stage = stage, .dtype = dtype});
      const ParameterArena& arena = trainer.arena;
      const auto gathered = [&](std::size_t entry) -> const Tensor& {
        const Tensor& parameter = *arena.entries()[entry].tensor;
        return dtype == DType::f32 ? parameter : parameter.autograd->low_precision;
      };
      const auto in_flight = [&](const GradientBucket& bucket) {
        std::size_t count = 0;
        for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
          if (gathered(i).storage()->data == nullptr) ++count;
        }
        return count;
      };
      trainer.accumulate(data, own, true);
      trainer.step();
      REQUIRE(arena.buckets().size() > 2);
      for (const GradientBucket& bucket : arena.buckets()) CHECK(in_flight(bucket) == bucket.entries);
      gathered(arena.buckets()[1].first_entry).raw();
      for (std::size_t b = 0; b < arena.buckets().size(); ++b) {
        CHECK(in_flight(arena.buckets()[b]) == (b == 1 ? 0 : arena.buckets()[b].entries));
      }
      (dtype == DType::f32 ? arena.values() : arena.low_precision()).raw();
      for (const GradientBucket& bucket : arena.buckets()) CHECK(in_flight(bucket) == 0);
    }
  }
}

TEST_CASE("ZeRO: without overlap a step waits for its values, and a model outlives their gathers",
          "[dist][zero]") {
  const auto comm = this_run();
  std::vector<std::vector<double>> results;
  for (const bool overlap : {true, false}) {
    manual_seed(1);
    const auto model = make_mlp({4, 8, 3});
    {
      ParameterArena arena(*model, comm->device(), DType::f32, sharding_of(*comm, 1, 512));
      SGD optimizer(arena, {.learning_rate = 0.1});
      DataParallelOptions options;
      options.overlap = overlap;
      DataParallel parallel(*model, arena, comm, options);
      sum((*model)(tensor_of({1, 2, 3, 4}, {1, 4}, DType::f32, comm->device()))).backward();
      parallel.finish();
      optimizer.step();
      CHECK((arena.entries()[0].tensor->storage()->data == nullptr) == overlap);
    }
    results.push_back(model->parameter("0.weight").to_doubles());
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("ZeRO: gathers of values that nothing has read are waited for when the model ends",
          "[dist][zero]") {
  const auto comm = this_run();
  const int dropped = gathers_nobody_waited_for();
  {
    const auto model = make_mlp({4, 8, 3});
    ParameterArena arena(*model, comm->device(), DType::f32, sharding_of(*comm, 1, 512));
    SGD optimizer(arena, {.learning_rate = 0.1});
    DataParallel parallel(*model, arena, comm);
    sum((*model)(tensor_of({1, 2, 3, 4}, {1, 4}, DType::f32, comm->device()))).backward();
    parallel.finish();
    optimizer.step();
  }
  CHECK(gathers_nobody_waited_for() == dropped);
}

TEST_CASE("ZeRO 2: shared weights and recomputed segments have the gradients of plain training",
          "[dist][zero]") {
  /// y = w relu(w relu(w x)), with one weight.
  struct Shared : Module {
    std::shared_ptr<Linear> layer = register_module("layer", std::make_shared<Linear>(6, 6));
    std::shared_ptr<Linear> head = register_module("head", std::make_shared<Linear>(6, 3));
    Tensor forward(const Tensor& x) override {
      return (*head)(relu((*layer)(relu((*layer)(relu((*layer)(x)))))));
    }
  };
  const auto comm = this_run();
  const Tensor x = tensor_of(random_doubles(24, static_cast<std::uint64_t>(comm->rank())), {4, 6}, DType::f32,
                             comm->device());
  for (const bool recompute : {false, true}) {
    std::vector<Values> results;
    for (const int stage : {0, 2}) {
      manual_seed(5);
      Shared shared;
      const auto deep = make_mlp({6, 6, 6, 6, 3});
      deep->set_recompute(4);
      Module& model = recompute ? static_cast<Module&>(*deep) : shared;
      ParameterArena arena(model, comm->device(), DType::f32, sharding_of(*comm, stage, 1));
      SGD optimizer(arena, {.learning_rate = 0.1});
      DataParallel parallel(model, arena, comm);
      for (int step = 0; step < 2; ++step) {
        optimizer.zero_grad();
        for (int piece = 0; piece < 2; ++piece) sum(multiply(model(x), model(x))).backward();
        parallel.finish();
        optimizer.step();
      }
      results.emplace_back();
      for (const ArenaEntry& entry : arena.entries()) results.back().push_back(entry.tensor->to_doubles());
    }
    INFO("recomputed " << recompute);
    check_same(results[1], results[0]);
  }
}
