#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "lessons/tasks/loss_scaler/task.h"
#include "lessons/tasks/tests.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using UpdateScale = decltype(::update_scale);

void test_overflow(UpdateScale* update) {
  Scaler scaler = {1024, 0};
  if (update(scaler, true)) wrong("a gradient overflowed, and you return true: this step must be skipped");
  if (scaler.scale == 1024)
    wrong("a gradient overflowed at a factor of 1024, and the factor stays: expected 512");
  if (scaler.scale != 512)
    wrong("a gradient overflowed at a factor of 1024: it becomes {:g}, expected 512", scaler.scale);
}

void test_growth(UpdateScale* update) {
  Scaler scaler = {1024, 0};
  for (int good = 1; good <= 3 * kGrowthInterval; ++good) {
    if (!update(scaler, false))
      wrong("good update {}: there was no overflow, so there is a step: return true", good);
    const double expected = std::ldexp(1024, good / kGrowthInterval);
    if (scaler.scale > expected && good < kGrowthInterval) {
      wrong(
          "the factor is {:g} after {} good update(s): it is doubled after {} of them, not after every good "
          "update",
          scaler.scale, good, kGrowthInterval);
    }
    if (scaler.scale != expected) {
      wrong("the factor is {:g} after {} good updates, expected {:g}: it doubles after each {}", scaler.scale,
            good, expected, kGrowthInterval);
    }
  }
}

void test_in_a_row(UpdateScale* update) {
  Scaler scaler = {1024, 0};
  for (int i = 0; i < kGrowthInterval - 1; ++i) update(scaler, false);
  update(scaler, true);
  update(scaler, false);
  if (scaler.scale != 512) {
    wrong(
        "{} good updates, an overflow and a good update: the factor is {:g}, expected 512: only good updates "
        "in a row "
        "count, so an overflow sets the count to 0",
        kGrowthInterval - 1, scaler.scale);
  }
}

/// A training run in f16; in step 20 the loss is 10,000 times as large.
struct Training {
  std::shared_ptr<Sequential> model;
  ParameterArena arena;
  SGD sgd;
  Tensor x, target;

  Training()
      : model((manual_seed(0), make_mlp({32, 64, 1}))),
        arena(*model, Device(), DType::f16),
        sgd(arena, {.learning_rate = 0.01}),
        x(to(randn({128, 32}), DType::f16)),
        target(to(randn({128, 1}, DType::f32, {}, 1), DType::f16)) {}
  Tensor loss(int step) { return mse_loss((*model)(x), target, Reduction::mean, step == 20 ? 1e-4 : 1); }
};

}  // namespace

void test_loss_scaler(const LearnersFile& file) {
  auto* const update = file.function<UpdateScale>("update_scale");
  test_overflow(update);
  test_growth(update);
  test_in_a_row(update);
}

void run_loss_scaler(const LearnersFile& file) {
  auto* const update = file.function<UpdateScale>("update_scale");
  Training mine, its;
  Scaler scaler = {65536, 0};
  LossScaler library(its.arena, {.growth_interval = kGrowthInterval});
  fmt::print(
      "\nA training in f16; in step 20 the loss is 10,000 times as large:\n  step    your factor  the "
      "library's\n");
  for (int step = 1; step <= 30; ++step) {
    mine.sgd.zero_grad();
    Tape::current().backward(mine.loss(step), full({}, scaler.scale));
    const bool overflow = !std::isfinite(clip_grad_norm(mine.arena, INFINITY).item());
    const double factor = scaler.scale;
    if (update(scaler, overflow)) {
      mine.sgd.set_learning_rate(0.01 / factor);
      mine.sgd.step();
    }
    const double expected = library.scale().item();
    its.sgd.zero_grad();
    library.backward(its.loss(step));
    clip_grad_norm(its.arena, INFINITY);
    its.sgd.step();
    library.update();
    if (step % 5 == 0 || step == 21) fmt::print("  {:>4}  {:>13}  {:>13}\n", step, factor, expected);
    if (factor != expected)
      wrong("in step {} the factor is {:g}, with the library's scaler {:g}", step, factor, expected);
  }
}

}  // namespace ringtape::tasks
