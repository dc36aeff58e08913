#include <limits>

#include "autograd/tape.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"
#include "optim/registry.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/support/error_of.h"
#include "tests/support/tensors.h"

// Plausible misuses: each gives the right result or an error.
namespace ringtape::test {
namespace {

using Values = std::vector<double>;

struct OneParameter : Module {
  explicit OneParameter(const Values& values)
      : w(register_parameter("w", tensor_of(values, {static_cast<std::int64_t>(values.size())}))) {}
  Tensor forward(const Tensor& x) override { return multiply(x, w); }
  Tensor& w;
};

/// Adds `gradient` to the gradient of w.
void add_gradient(const OneParameter& model, const Values& gradient) {
  Tape::current().backward(sum(multiply(model.w, tensor_of(gradient, model.w.shape()))), ones({}));
}

TEST_CASE("AdamW decays by 0.01 whichever other options are given", "[optim]") {
  for (const bool sets_rate : {false, true}) {
    OneParameter model({2});
    ParameterArena arena(model, Device{});
    const double rate = sets_rate ? 0.1 : 1e-3;
    AdamW optimizer = sets_rate ? AdamW(arena, {.learning_rate = 0.1}) : AdamW(arena);
    add_gradient(model, {0});  // Adam's own update is 0
    optimizer.step();
    CHECK(is_close(model.w.item(), 2 * (1 - rate * 0.01), 1e-7));
  }
}

TEST_CASE("a step under a loss scale unscales and skips an overflow without clip_grad_norm", "[scaler]") {
  OneParameter model({1, 2});
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 0.5});
  {
    LossScaler scaler(arena, {.initial_scale = 1024});
    const auto step = [&](double gradient) {
      optimizer.zero_grad();
      scaler.backward(sum(scale(model.w, gradient)));
      optimizer.step();
      scaler.update();
    };
    step(3);
    CHECK(model.w.to_doubles() == Values{1 - 1.5, 2 - 1.5});
    step(static_cast<double>(INFINITY));
    CHECK(model.w.to_doubles() == Values{-0.5, 0.5});
    CHECK(optimizer.skipped_updates().item() == 1);
    CHECK(scaler.scale().item() == 512);
    CHECK(error_of([&] { LossScaler(arena, {}); }) ==
          "loss scale: the arena already has a scaler, expected one");
    step(1);
    CHECK(model.w.to_doubles() == Values{-1, 0});
  }
  optimizer.zero_grad();
  add_gradient(model, {1, 1});  // without a scaler nothing is divided
  optimizer.step();
  CHECK(model.w.to_doubles() == Values{-1.5, -0.5});
}

TEST_CASE("a scaler is refused while there are gradients that it has not scaled", "[scaler]") {
  OneParameter model({1});
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model, {1});
  CHECK(error_of([&] { LossScaler(arena, {}); }) ==
        "loss scale: w has a gradient already, which is not scaled: expected the scaler before the first "
        "backward(), or after zero_grad()");
  optimizer.zero_grad();
  LossScaler scaler(arena, {});
  scaler.backward(sum(model.w));
  optimizer.step();
  CHECK(model.w.item() == 0);
}

TEST_CASE("a backward without the scaler, and a step after its end, are refused", "[scaler]") {
  OneParameter model({1, 2}), other({1});
  ParameterArena arena(model, Device{}), of_other(other, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  {
    LossScaler scaler(arena);
    CHECK(error_of([&] { sum(model.w).backward(); }) ==
          "backward(): a LossScaler scales the gradient of w: expected its backward(loss)");
    CHECK(!model.w.grad().defined());
    sum(other.w).backward();
    scaler.backward(sum(model.w));
  }
  CHECK(error_of([&] { optimizer.step(); }) ==
        "optimizer: the gradients are scaled by a LossScaler that is gone: expected it to live until step()");
  optimizer.zero_grad();
  sum(model.w).backward();
  optimizer.step();
  CHECK(model.w.to_doubles() == Values{0, 1});
}

TEST_CASE("a parameter that was replaced after the arena was made is refused", "[nn]") {
  for (const bool undefined : {false, true}) {
    OneParameter model({1, 2});
    ParameterArena arena(model, Device{});
    SGD optimizer(arena);
    model.parameter("w") = undefined ? Tensor() : zeros({2}).set_requires_grad(true);
    const char* const expected =
        "parameter arena: another tensor was assigned to w after the arena was made, which would not be "
        "trained: expected copy_from()";
    CHECK(error_of([&] { optimizer.zero_grad(); }) == expected);
    CHECK(error_of([&] { optimizer.step(); }) == expected);
  }
  Sequential model({std::make_shared<Linear>(2, 2), std::make_shared<Linear>(2, 2)});
  ParameterArena arena(model, Device{});
  model.parameter("1.weight") = model.parameter("0.weight");  // both are in the arena
  CHECK(error_of([&] { arena.zero_grad(); }) ==
        "parameter arena: another tensor was assigned to 1.weight after the arena was made, which would not "
        "be trained: expected copy_from()");
}

TEST_CASE("a loss scale of 2^124 and a small clipping norm lose no digits", "[scaler]") {
  for (const OptimizerKind& kind : optimizers()) {
    INFO(kind.name);
    const auto train = [&](double loss_scale) {
      OneParameter model({1, -2, 3});
      ParameterArena arena(model, Device{});
      const auto optimizer = kind.make(arena, {.learning_rate = 1e6, .momentum = 0.9}, {});
      const Tensor factor = tensor_of({loss_scale}, {});
      if (loss_scale != 1) arena.set_loss_scale(factor.data<float>());
      for (int step = 0; step < 3; ++step) {
        optimizer->zero_grad();
        add_gradient(model, {3e-3 * loss_scale, 1e-3 * loss_scale, -2e-3 * loss_scale});
        clip_grad_norm(arena, 1e-6);
        optimizer->step();
      }
      return model.w.to_doubles();
    };
    CHECK(train(0x1p124) == train(1));
  }
}

TEST_CASE("a parameter is in at most one arena", "[nn]") {
  const auto model = make_mlp({2, 3, 1});
  {
    const ParameterArena first(*model, Device{});
    CHECK(error_of([&] { ParameterArena(*model, Device{}); }) ==
          "parameter arena: 2.bias is in another arena, whose optimizer would not move it any more: expected "
          "one "
          "arena for a parameter");
    // The first one is unchanged.
    CHECK(first.entries()[0].tensor->raw() == first.values().raw());
  }
  CHECK(error_of([&] { ParameterArena(*model, Device{}); }) == "");  // the first one is gone
}

TEST_CASE("an f32 input to a model whose arena computes in 16 bits is refused", "[mixed]") {
  const auto model = make_mlp({2, 3, 1});
  const Tensor x = tensor_of({1, 2}, {1, 2});
  const NoGrad no_grad;
  const std::vector<double> expected = (*model)(x).to_doubles();
  {
    const ParameterArena arena(*model, Device{}, DType::bf16);
    CHECK(error_of([&] { (*model)(x); }) ==
          "linear_relu: the input is f32, but the arena of 0.weight computes in bf16: expected "
          "to(input, arena.compute_dtype())");
    CHECK(error_of([&] { (*model)(to(x, DType::f16)); }).starts_with("linear_relu: the input is f16, but "));
    CHECK((*model)(to(x, arena.compute_dtype())).dtype() == DType::bf16);
    // An operation that belongs to no layer takes a parameter as the f32 tensor that it is.
    CHECK(matmul(x, model->parameter("0.weight"), false, true).dtype() == DType::f32);
  }
  CHECK((*model)(x).to_doubles() == expected);  // without the arena it is an f32 model again
}

TEST_CASE("a parameter that an arena holds as frozen cannot be trained", "[nn]") {
  const auto model = make_mlp({2, 3, 1});
  model->parameter("0.bias").set_requires_grad(false);
  {
    const ParameterArena arena(*model, Device{});
    CHECK(error_of([&] { model->requires_grad(true); }) ==
          "requires_grad: 0.bias was frozen when its parameter arena was made, which would not train it: "
          "expected requires_grad(true) before that");
    model->parameter("0.weight")
        .set_requires_grad(false)
        .set_requires_grad(true);  // the arena has its gradient
  }
  model->requires_grad(true);
  const ParameterArena arena(*model, Device{});
  CHECK(arena.trained_elements() == 3 * 2 + 3 + 3 + 1);
}

TEST_CASE("errors show NaN without a sign", "[optim]") {
  OneParameter model({1});
  ParameterArena arena(model, Device{});
  SGD optimizer(arena);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(error_of([&] { optimizer.set_learning_rate(-nan); }).ends_with("found nan"));
  CHECK(error_of([&] { optimizer.set_learning_rate(nan); }).ends_with("found nan"));
  CHECK(error_of([&] { optimizer.set_learning_rate(-1); }).ends_with("found -1"));
}

TEST_CASE("a module that a model's arena would not contain, or that contains itself, is refused", "[nn]") {
  Sequential model({std::make_shared<Linear>(1, 2)});
  {
    const ParameterArena arena(model, Device{});
    CHECK(error_of([&] { model.push_back(std::make_shared<Linear>(2, 1)); }) ==
          "register_module: module '1' would not be trained, because the parameter arena was made before: "
          "expected every part of the model then");
    model.push_back(std::make_shared<ReLU>());  // it has no parameter
    struct Shares : Module {
      Shares(Tensor& inside, Tensor& outside)
          : layer(register_module("layer", std::make_shared<Linear>(1, 1))) {
        const ParameterArena own(*layer, Device{});
        share_parameter("inside", inside);
        share_parameter("outside", outside);
      }
      Tensor forward(const Tensor& x) override { return x; }
      std::shared_ptr<Linear> layer;
    };
    Linear outside(1, 1);
    CHECK(error_of([&] { Shares(model.parameter("0.weight"), outside.parameter("weight")); }) ==
          "share_parameter: parameter 'outside' would not be trained, because the parameter arena was made "
          "before: expected every part of the model then");
  }
  model.push_back(std::make_shared<Linear>(2, 1));
  const auto outer = std::make_shared<Sequential>(), inner = std::make_shared<Sequential>();
  outer->push_back(inner);
  const char* const expected = "register_module: module '0' contains the module that it is to be in";
  CHECK(error_of([&] { inner->push_back(inner); }) == expected);
  CHECK(error_of([&] { inner->push_back(outer); }) == expected);
  // Parts of one arena may be put together again.
  const auto first = std::make_shared<Linear>(1, 1), second = std::make_shared<Linear>(1, 1);
  Sequential both({first, second});
  const ParameterArena arena(both, Device{});
  CHECK(error_of([&] { Sequential({second, first}); }) == "");
}

struct NullPart : Module {
  NullPart() { register_module("l", std::shared_ptr<Linear>()); }
  Tensor forward(const Tensor& x) override { return x; }
};
struct UndefinedParameter : Module {
  UndefinedParameter() { register_parameter("w", Tensor()); }
  Tensor forward(const Tensor& x) override { return x; }
};

TEST_CASE("null modules and undefined parameters are refused by name", "[nn]") {
  CHECK(error_of([] { NullPart(); }) == "register_module: module 'l' is null");
  CHECK(error_of([] { UndefinedParameter(); }) == "register_parameter: parameter 'w' is an undefined tensor");
}

TEST_CASE("an empty schedule is refused where it is given", "[schedule]") {
  CHECK(error_of([] { schedule::warm_up(schedule::Warmup::linear, 3, nullptr); }) ==
        "schedule: the schedule after the warm-up is empty: expected a function of the step");
  CHECK(error_of([] { schedule::then(nullptr, 3, schedule::constant(1)); }) ==
        "schedule: the first schedule is empty: expected a function of the step");
  CHECK(error_of([] { schedule::then(schedule::constant(1), 3, nullptr); }) ==
        "schedule: the second schedule is empty: expected a function of the step");
}

TEST_CASE("a step of an arena whose parameters are all frozen does nothing", "[optim]") {
  for (const OptimizerKind& kind : optimizers()) {
    INFO(kind.name);
    OneParameter model({1, 2});
    model.requires_grad(false);
    ParameterArena arena(model, Device{});
    const auto optimizer = kind.make(arena, kind.defaults, {});
    optimizer->step();
    CHECK(model.w.to_doubles() == Values{1, 2});
  }
}

}  // namespace
}  // namespace ringtape::test
