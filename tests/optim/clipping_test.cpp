#include <cmath>
#include <limits>

#include "nn/arena.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/optim/two_parameters.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

namespace ringtape::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("the clip factor acts on the next step, once", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.a, {3, 0});
  add_gradient(model.b, {4});
  CHECK(clip_grad_norm(arena, 2.5).item() == 5);
  CHECK(model.a.grad().to_doubles() == Values{3, 0});  // in memory the gradients stay as they are
  optimizer.step();
  // factor 2.5 / (5 + 1e-6)
  check_close(model.a.to_doubles(), {1 - 1.5, 2}, 1e-6);
  check_close(model.b.to_doubles(), {3 - 2}, 1e-6);
  const double before = model.b.item();
  optimizer.step();  // not clipped again
  check_close(model.b.to_doubles(), {before - 4}, 1e-6);
}

TEST_CASE("a norm below the limit leaves the step as it is, and an infinite limit measures only", "[optim]") {
  for (const double limit : {5.1, kInfinity}) {
    Two model;
    ParameterArena arena(model, Device{});
    SGD optimizer(arena, {.learning_rate = 1});
    add_gradient(model.a, {3, 0});
    add_gradient(model.b, {4});
    CHECK(clip_grad_norm(arena, limit).item() == 5);
    optimizer.step();
    CHECK(model.a.to_doubles() == Values{-2, 2});
    CHECK(model.b.to_doubles() == Values{-1});
  }
}

TEST_CASE("the norm is that of the defined gradients, and zero_grad forgets the factor", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.a, {30, 40});
  add_gradient(model.b, {4});
  arena.zero_grad();
  add_gradient(model.b, {4});  // a's old gradient is still in memory
  CHECK(clip_grad_norm(arena, 1).item() == 4);
  arena.zero_grad();
  CHECK(arena.clip_factor() == nullptr);
  CHECK(clip_grad_norm(arena, 1).item() == 0);
  arena.zero_grad();
  add_gradient(model.b, {4});
  optimizer.step();
  CHECK(model.b.to_doubles() == Values{-1});
}

TEST_CASE("a norm that is not finite skips the step on request: nothing changes but the count", "[optim]") {
  for (const MakeOptimizer& make : all_optimizers()) {
    for (const double bad : {std::nan(""), kInfinity}) {
      Two model, reference;
      ParameterArena arena(model, Device{}), reference_arena(reference, Device{});
      const auto optimizer = make(arena), reference_optimizer = make(reference_arena);
      for (int step = 0; step < 6; ++step) {
        const bool skipped = step == 1 || step == 2 || step == 4;
        optimizer->zero_grad();
        add_gradient(model.a, {0.5 * step, 1});
        add_gradient(model.b, {skipped ? bad : 2});
        clip_grad_norm(arena, 1.5, {.skip_nonfinite = true});
        optimizer->step();
        if (skipped) continue;
        reference_optimizer->zero_grad();
        add_gradient(reference.a, {0.5 * step, 1});
        add_gradient(reference.b, {2});
        clip_grad_norm(reference_arena, 1.5);
        reference_optimizer->step();
      }
      CHECK(arena.values().to_doubles() == reference_arena.values().to_doubles());
      const std::vector<NamedTensor> state = optimizer->state(), expected = reference_optimizer->state();
      REQUIRE(state.size() == expected.size());
      for (std::size_t i = 0; i < state.size(); ++i) {
        INFO(state[i].name);
        CHECK(state[i].tensor.to_doubles() == expected[i].tensor.to_doubles());
      }
      CHECK(optimizer->skipped_updates().item() == 3);
      CHECK(reference_optimizer->skipped_updates().item() == 0);
    }
  }
}

TEST_CASE("a rank whose shard has no parameter counts skipped steps too", "[optim]") {
  const auto sum = [](Tensor x) { x.copy_from(full(x.shape(), kInfinity, x.dtype())); };
  const auto ignore = [](const Tensor&) {};
  for (const MakeOptimizer& make : all_optimizers()) {
    Two model;
    ParameterArena arena(model, Device{}, DType::f32, {.zero_stage = 1, .rank = 7, .world_size = 8});
    arena.set_shard_exchange({.sum = sum, .max = ignore, .all_gather = ignore, .start_all_gather = ignore});
    REQUIRE(arena.tile_count() == 0);
    const auto optimizer = make(arena);
    add_gradient(model.a, {1, 1});
    add_gradient(model.b, {1});
    clip_grad_norm(arena, 1, {.skip_nonfinite = true});
    optimizer->step();
    CHECK(optimizer->skipped_updates().item() == 1);
  }
}

TEST_CASE("the skip flag acts once, and only where it was asked for", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.b, {kInfinity});
  clip_grad_norm(arena, 1, {.skip_nonfinite = true});
  optimizer.zero_grad();
  CHECK(arena.skip() == nullptr);
  add_gradient(model.a, {kInfinity, 0});
  clip_grad_norm(arena, 1, {.skip_nonfinite = true});
  optimizer.step();
  CHECK(model.a.to_doubles() == Values{1, 2});
  optimizer.step();
  CHECK(model.a.to_doubles() == Values{-kInfinity, 2});
  add_gradient(model.b, {std::nan("")});
  clip_grad_norm(arena, 1);
  optimizer.step();
  CHECK(std::isnan(model.b.item()));
  CHECK(optimizer.skipped_updates().item() == 1);
}

TEST_CASE("with a loss scale the step unscales, and clips by the unscaled norm", "[optim]") {
  for (const double max_norm : {2.5, 100.0}) {
    Two model;
    ParameterArena arena(model, Device{});
    SGD optimizer(arena, {.learning_rate = 1});
    const Tensor scale = tensor_of({64}, {});
    add_gradient(model.a, {3 * 64, 0});
    add_gradient(model.b, {4 * 64});
    arena.set_loss_scale(scale.data<float>());
    CHECK(clip_grad_norm(arena, max_norm).item() == 5);
    optimizer.step();
    const double factor = std::min(1.0, max_norm / 5);
    check_close(model.a.to_doubles(), {1 - 3 * factor, 2}, 1e-6);
    check_close(model.b.to_doubles(), {3 - 4 * factor}, 1e-6);
  }
}

TEST_CASE("clip_grad_norm_now clips what has been accumulated, in memory, after each micro-batch",
          "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.a, {3, 0});
  add_gradient(model.b, {4});
  CHECK(clip_grad_norm_now(arena, 2.5).item() == 5);
  check_close(arena.gradients().alias({1}, 0).to_doubles(), {2}, 1e-6);
  check_close(model.a.grad().to_doubles(), {1.5, 0}, 1e-6);
  add_gradient(model.a, {0, 1.5});
  CHECK(is_close(clip_grad_norm_now(arena, 3, 1).item(), 5, 1e-6));  // the sum of absolute values
  check_close(model.a.grad().to_doubles(), {0.9, 0.9}, 1e-6);
  check_close(model.b.grad().to_doubles(), {1.2}, 1e-6);
  CHECK(arena.clip_factor() == nullptr);
  optimizer.step();
  check_close(model.b.to_doubles(), {3 - 1.2}, 1e-6);
}

TEST_CASE("a norm that overflows after a micro-batch skips the step", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.a, {3e38, 1});
  add_gradient(model.b, {3e38});
  CHECK(std::isinf(clip_grad_norm_now(arena, 1).item()));
  CHECK(model.a.grad().to_doubles() == Values{3e38f, 1});
  clip_grad_norm(arena, kInfinity, {.skip_nonfinite = true});
  optimizer.step();
  CHECK(optimizer.skipped_updates().item() == 1);
  CHECK(model.a.to_doubles() == Values{1, 2});
}

TEST_CASE("clip_grad_value does not hide an overflow from the norm", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.a, {-3, kInfinity});
  clip_grad_value(arena, 1);
  CHECK(model.a.grad().to_doubles() == Values{-1, kInfinity});
  clip_grad_norm(arena, 1, {.skip_nonfinite = true});
  optimizer.step();
  CHECK(optimizer.skipped_updates().item() == 1);
  CHECK(model.a.to_doubles() == Values{1, 2});
}

TEST_CASE("what would change measured gradients before the step is refused", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.a, {3, 4});
  clip_grad_norm(arena, 2.5);
  CHECK(
      error_of([&] { clip_grad_value(arena, 1); }) ==
      "clip_grad_value: clip_grad_norm() has measured these gradients, and the next step applies its factor "
      "to them: expected clip_grad_value before it");
  CHECK_THAT(error_of([&] { clip_grad_norm_now(arena, 1); }),
             ContainsSubstring("clip_grad_norm_now: clip_grad_norm() has measured"));
  add_gradient(model.a, {3, 4});
  CHECK(error_of([&] { optimizer.step(); }) ==
        "optimizer: a backward() has added to the gradients since clip_grad_norm() measured them: expected "
        "clip_grad_norm() after the last backward()");
  CHECK(model.a.to_doubles() == Values{1, 2});
  CHECK(clip_grad_norm(arena, 5).item() == 10);
  Two other;
  add_gradient(other.a, {1, 1});  // of no arena, and so none of these gradients
  optimizer.step();
  check_close(model.a.to_doubles(), {1 - 3, 2 - 4}, 1e-6);
}

TEST_CASE("gradients whose norm was only measured may change before the step", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.a, {3, 4});
  CHECK(clip_grad_norm(arena, kInfinity).item() == 5);
  add_gradient(model.a, {3, 4});
  CHECK(clip_grad_norm_now(arena, 5).item() == 10);  // and the step does not clip again
  optimizer.step();
  check_close(model.a.to_doubles(), {1 - 3, 2 - 4}, 1e-6);
}

TEST_CASE("clip_grad_value limits each element in memory", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  add_gradient(model.a, {-3, 0.5});
  add_gradient(model.b, {std::nan("")});
  clip_grad_value(arena, 1);
  CHECK(model.a.grad().to_doubles() == Values{-1, 0.5});
  CHECK(std::isnan(model.b.grad().item()));
}

}  // namespace
}  // namespace ringtape::test
