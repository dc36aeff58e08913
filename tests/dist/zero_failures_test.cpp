// ZeRO after a failed backward, and options that it refuses.
#include "autograd/ops.h"
#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace ringtape;
using namespace ringtape::test;

TEST_CASE("ZeRO: a backward that fails half-way is reported, and the next window is like any other",
          "[dist][zero]") {
  const auto comm = this_run();
  const bool fails = comm->rank() == comm->size() - 1;
  for (const int stage : {1, 2}) {
    INFO("stage " << stage);
    manual_seed(1);
    TwoBranches model;
    ParameterArena arena(model, comm->device(), DType::f32, sharding_of(*comm, stage, 1));
    SGD optimizer(arena, {.learning_rate = 1});
    DataParallel parallel(model, arena, comm);
    if (fails) {
      CHECK_THROWS_WITH(model.backward_half_way(comm->device(), true), ContainsSubstring("half-way"));
    } else {
      model.backward_half_way(comm->device(), false);
    }
    CHECK(error_of([&] {
            parallel.finish();
          }).find(fmt::format("ended with an exception on rank {}", comm->size() - 1)) != std::string::npos);

    optimizer.zero_grad();
    const std::vector<double> before = model.parameter("first.weight").to_doubles();
    model.backward(comm->device());
    parallel.finish();
    optimizer.step();
    std::vector<double> expected = before;
    for (std::size_t i = 0; i < 6; ++i) expected[i] -= static_cast<double>(1 + i % 3);
    check_close(model.parameter("first.weight").to_doubles(), expected, 1e-6);
  }
}

TEST_CASE("ZeRO: after a backward that failed, the next is refused and leaves no gradient behind",
          "[dist][zero]") {
  const auto comm = this_run();
  const Device device = comm->device();
  const bool fails = comm->rank() == comm->size() - 1;
  for (const int stage : {1, 2}) {
    INFO("stage " << stage);
    manual_seed(1);
    TwoBranches model;
    ParameterArena arena(model, device, DType::f32, sharding_of(*comm, stage, 1));
    SGD optimizer(arena, {.learning_rate = 1});
    DataParallel parallel(model, arena, comm,
                          {.bucket_sizes = {}, .overlap = true, .allow_unused = true, .hook = nullptr});
    const auto backward = [&](bool ends) {
      const TapeScope scope;
      Tensor first = (*model.first)(tensor_of({1, 2, 3}, {1, 3}, DType::f32, device));
      if (!ends) first = fail_in_backward(first);
      // The gradient of "second" is complete, and its bucket in flight, when the other branch fails.
      const Tensor second = (*model.second)(tensor_of({100, 200, 300}, {1, 3}, DType::f32, device));
      sum(add(first, second)).backward();
    };
    if (fails) {
      CHECK_THROWS_WITH(backward(false), ContainsSubstring("half-way"));
      CHECK_THAT(error_of([&] { backward(true); }),
                 ContainsSubstring("a backward has ended with an exception"));
    } else {
      backward(true);
    }
    CHECK_THROWS_WITH(parallel.finish(),
                      ContainsSubstring(fmt::format("ended with an exception on rank {}", comm->size() - 1)));

    optimizer.zero_grad();
    const std::vector<double> before = model.parameter("second.weight").to_doubles();
    model.with_second = !fails;
    model.backward(device);
    parallel.finish();
    optimizer.step();
    // The others' gradients are [1, 2, 3] twice, and that of the rank without "second" is 0.
    std::vector<double> expected = before;
    const double share = static_cast<double>(comm->size() - 1) / comm->size();
    for (std::size_t i = 0; i < 6; ++i) expected[i] -= share * static_cast<double>(1 + i % 3);
    check_close(model.parameter("second.weight").to_doubles(), expected, 1e-6);
  }
}

TEST_CASE("ZeRO: options that do not fit are an error", "[dist][zero]") {
  const auto comm = this_run();
  const auto make = [&](const ArenaSharding& sharding, const DataParallelOptions& options) {
    const auto model = make_mlp({3, 4, 2});
    ParameterArena arena(*model, comm->device(), DType::f32, sharding);
    const DataParallel parallel(*model, arena, comm, options);
  };
  const ArenaSharding first = sharding_of(*comm, 1, 1), second = sharding_of(*comm, 2, 1);
  ArenaSharding other = first, third = first, outside = first;
  other.world_size = comm->size() + 1;
  third.zero_stage = 4;
  outside.rank = comm->size();
  CHECK_THAT(error_of([&] { make(other, {}); }), ContainsSubstring("the arena has the shard of rank"));
  CHECK_THAT(error_of([&] { make(third, {}); }), ContainsSubstring("ZeRO stage 4, expected 0 to 3"));
  CHECK_THAT(error_of([&] { make(outside, {}); }), ContainsSubstring("expected rank 0 to"));
  DataParallelOptions hooked, late;
  hooked.hook = std::make_shared<AllReduceHook>();
  late.overlap = false;
  CHECK_THAT(error_of([&] { make(second, hooked); }), ContainsSubstring("no communication hooks, found one"));
  CHECK_THAT(error_of([&] { make(second, late); }), ContainsSubstring("no memory for all gradients"));
  CHECK(error_of([&] { make(first, hooked); }).empty());
  CHECK(error_of([&] { make(first, late); }).empty());

  TwoBranches model;
  ParameterArena arena(model, comm->device(), DType::f32, first);
  SGD optimizer(arena, {.learning_rate = 1});
  model.backward(comm->device());
  const std::vector<double> before = arena.values().to_doubles();
  CHECK_THAT(error_of([&] { optimizer.step(); }), ContainsSubstring("nothing connects it to them"));
  CHECK(arena.values().to_doubles() == before);
  CHECK_THAT(error_of([&] { clip_grad_norm(arena, 1); }), ContainsSubstring("nothing connects it to them"));
  CHECK_THAT(error_of([&] { clip_grad_norm_now(arena, 1); }),
             ContainsSubstring("found gradients sharded over"));
}
