#include <cmath>
#include <limits>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/registry.h"
#include "optim/sgd.h"
#include "tests/optim/two_parameters.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("optimizers refuse invalid settings by name", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  for (const double bad : {-1.0, std::nan(""), kInfinity}) {
    CHECK_THROWS_WITH(SGD(arena, {.learning_rate = bad}),
                      ContainsSubstring("learning rate must be finite and at least 0"));
    CHECK_THROWS_WITH(Adam(arena, {.learning_rate = bad}), ContainsSubstring("learning rate"));
    CHECK_THROWS_WITH(AdamW(arena, {.weight_decay = bad}), ContainsSubstring("weight decay"));
    CHECK_THROWS_WITH(SGD(arena, {.momentum = bad}), ContainsSubstring("momentum"));
  }
  CHECK_THROWS_WITH(SGD(arena, {.learning_rate = -0.5}), ContainsSubstring("found -0.5"));
  CHECK_THROWS_WITH(SGD(arena, {.learning_rate = 1e39}), ContainsSubstring("at most 3.4e38, found 1e+39"));
  CHECK_THROWS_WITH(SGD(arena, {.momentum = 0.9, .dampening = 0.5, .nesterov = true}),
                    ContainsSubstring("Nesterov"));
  CHECK_THROWS_WITH(SGD(arena, {.nesterov = true}), ContainsSubstring("Nesterov"));
  for (const double bad : {-0.1, 1.0, std::nan("")}) {
    CHECK_THROWS_WITH(Adam(arena, {.beta1 = bad}), ContainsSubstring("betas must be in [0, 1)"));
    CHECK_THROWS_WITH(Adam(arena, {.beta2 = bad}), ContainsSubstring("betas must be in [0, 1)"));
  }
  CHECK_THROWS_WITH(Adam(arena, {.eps = 0}), ContainsSubstring("eps must be finite and positive"));
  CHECK_THROWS_WITH(Adam(arena, {.eps = std::nan("")}), ContainsSubstring("eps"));
  CHECK_THROWS_WITH(Adam(arena, {.eps = INFINITY}), ContainsSubstring("eps must be finite"));
  // As floats infinite and 0.
  CHECK_THROWS_WITH(AdamW(arena, {.weight_decay = 1e39}),
                    ContainsSubstring("weight decay must be at most 3.4e38, found 1e+39"));
  CHECK_THROWS_WITH(SGD(arena, {.momentum = 1e39}),
                    ContainsSubstring("SGD: momentum must be at most 3.4e38"));
  CHECK_THROWS_WITH(Adam(arena, {.eps = 1e39}), ContainsSubstring("Adam: eps must be at most 3.4e38"));
  CHECK_THROWS_WITH(Adam(arena, {.eps = 1e-46}),
                    ContainsSubstring("Adam: eps must be at least 1.4e-45, found 1e-46"));
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    CHECK_THROWS_WITH(clip_grad_norm(arena, bad), ContainsSubstring("max_norm must be above 0"));
    CHECK_THROWS_WITH(clip_grad_norm(arena, 1, {.norm_type = bad}),
                      ContainsSubstring("norm_type must be above 0"));
    CHECK_THROWS_WITH(clip_grad_norm_now(arena, bad), ContainsSubstring("clip_grad_norm_now: max_norm must"));
    CHECK_THROWS_WITH(clip_grad_value(arena, bad), ContainsSubstring("limit must be above 0"));
  }
  for (const double bad : {1e-46, 1e39}) {  // as floats 0 and infinite
    CHECK_THROWS_WITH(clip_grad_norm(arena, bad), ContainsSubstring("max_norm must be infinite or from"));
    CHECK_THROWS_WITH(clip_grad_norm_now(arena, bad), ContainsSubstring("max_norm must be infinite or from"));
    CHECK_THROWS_WITH(clip_grad_value(arena, bad), ContainsSubstring("limit must be infinite or from"));
  }
  CHECK_THROWS_WITH(clip_grad_norm(arena, 1e-46), ContainsSubstring("found 1e-46"));
  SGD optimizer(arena);
  CHECK_THROWS_WITH(optimizer.set_learning_rate(std::nan("")), ContainsSubstring("found nan"));
  CHECK(optimizer.learning_rate() == 0.01);
}

/// A group of the parameters with this name.
ParameterGroup named(const std::string& name) {
  return {.name = "only " + name, .contains = [=](const ArenaEntry& entry) { return entry.name == name; }};
}

TEST_CASE("parameter groups have their own rate and decay; a parameter in several has all their settings",
          "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  ParameterGroup fast = named("b"), slow = named("b"), undecayed = named("a");
  fast.lr_scale = 4;
  fast.weight_decay = 2;
  slow.lr_scale = 0.5;
  slow.weight_decay = 1;
  undecayed.weight_decay = 0;
  SGD optimizer(arena, {.learning_rate = 0.125, .weight_decay = 7}, {fast, slow, undecayed});
  add_gradient(model.a, {1, 2});
  add_gradient(model.b, {1});
  optimizer.step();
  CHECK(model.a.to_doubles() == Values{1 - 0.125, 2 - 0.25});
  CHECK(model.b.to_doubles() == Values{3 - 0.25 * (1 + 3)});
}

TEST_CASE("an empty parameter group or one with an invalid setting is an error that names it", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  CHECK_THROWS_WITH(AdamW(arena, {}, {named("a"), named("head")}),
                    ContainsSubstring("parameter group 'only head' contains none of the 2 trainable"));
  for (const double bad : {-1.0, std::nan(""), kInfinity}) {
    ParameterGroup group = named("a");
    group.lr_scale = bad;
    CHECK_THROWS_WITH(SGD(arena, {}, {group}), ContainsSubstring("'only a': lr_scale must be finite"));
    group.lr_scale = 1;
    group.weight_decay = bad;
    CHECK_THROWS_WITH(SGD(arena, {}, {group}), ContainsSubstring("'only a': weight decay must be finite"));
  }
  ParameterGroup group = named("a");
  group.lr_scale = 1e39;
  CHECK_THROWS_WITH(SGD(arena, {}, {group}), ContainsSubstring("'only a': lr_scale must be at most 3.4e38"));
  group.lr_scale = 1e30;
  CHECK_THROWS_WITH(
      SGD(arena, {}, {group, group}),
      ContainsSubstring("'only a': lr_scale times that of earlier groups must be at most 3.4e38"));
  CHECK_THROWS_WITH(SGD(arena, {}, {{.name = "empty", .contains = nullptr}}),
                    ContainsSubstring("'empty' has no predicate"));
}

TEST_CASE("the learning rate can be changed between steps; 0 changes nothing", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  add_gradient(model.a, {0.25, 0.5});
  optimizer.step();
  CHECK(model.a.to_doubles() == Values{0.75, 1.5});
  optimizer.set_learning_rate(2);
  CHECK(optimizer.learning_rate() == 2);
  optimizer.step();
  CHECK(model.a.to_doubles() == Values{0.25, 0.5});
  optimizer.set_learning_rate(0);
  optimizer.step();
  CHECK(model.a.to_doubles() == Values{0.25, 0.5});
}

TEST_CASE("a parameter without a gradient is left alone: no step, no decay, no change of its state",
          "[optim]") {
  const auto check_skipped = [](auto make) {
    Two model, reference;
    ParameterArena arena(model, Device{}), reference_arena(reference, Device{});
    const auto optimizer = make(arena);
    const auto reference_optimizer = make(reference_arena);
    for (int step = 0; step < 5; ++step) {
      optimizer->zero_grad();
      add_gradient(model.a, {1, 1});
      if (step % 2 == 0) {
        add_gradient(model.b, {0.5 * step});
        reference_optimizer->zero_grad();
        add_gradient(reference.b, {0.5 * step});
        reference_optimizer->step();
      }
      const Values before = model.b.to_doubles();
      optimizer->step();
      if (step % 2 == 1) CHECK(model.b.to_doubles() == before);
    }
    // Five steps, with b absent in two of them, and only the three others end with the same bits.
    CHECK(model.b.to_doubles() == reference.b.to_doubles());
    CHECK(reference.a.to_doubles() == Values{1, 2});
  };
  for (const MakeOptimizer& make : all_optimizers()) check_skipped(make);
}

TEST_CASE("the registry says how many values an optimizer keeps for each of the parameters", "[optim]") {
  for (const OptimizerKind& kind : optimizers()) {
    for (const double momentum : {0.0, 0.9}) {
      INFO(kind.name << ", momentum " << momentum);
      Two model;
      ParameterArena arena(model, Device{});
      OptimizerSettings settings = kind.defaults;
      settings.momentum = momentum;
      std::int64_t values = 0;
      for (const NamedTensor& state : kind.make(arena, settings, {})->state()) {
        if (state.tensor.dtype() == DType::f32) values += state.tensor.elements();
      }
      CHECK(values == kind.state_per_parameter(settings) * arena.values().elements());
    }
  }
}

TEST_CASE("a gradient of zeros is a gradient: the decay acts", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 0.5, .weight_decay = 0.5});
  add_gradient(model.a, {0, 0});
  optimizer.step();
  CHECK(model.a.to_doubles() == Values{0.75, 1.5});
  CHECK(model.b.to_doubles() == Values{3});
}

TEST_CASE("a step counts as a change of the parameters", "[optim]") {
  Two model;
  ParameterArena arena(model, Device{});
  SGD optimizer(arena);
  const std::uint64_t before = model.a.storage()->version;
  optimizer.step();
  CHECK(model.a.storage()->version > before);
}

// ---- training ----

struct Trained {
  Values parameters;
  double loss;
};

/// Trains a small classifier on points of three classes.
Trained train(std::uint64_t seed, Device device = {}) {
  manual_seed(seed);
  const std::shared_ptr<Sequential> model = make_mlp({8, 33, 3});
  ParameterArena arena(*model, device);
  Adam optimizer(arena, {.learning_rate = 0.01});
  double last_loss = 0;
  for (int step = 0; step < 60; ++step) {
    const Values points = randn({64, 8}).to_doubles();
    Values labels;
    for (std::size_t i = 0; i < points.size(); i += 8) {
      labels.push_back(points[i] > points[i + 1] ? 0 : points[i + 2] > 0 ? 1 : 2);
    }
    optimizer.zero_grad();
    const Tensor loss = cross_entropy((*model)(tensor_of(points, {64, 8}, DType::f32, device)),
                                      tensor_of(labels, {64}, DType::i64, device));
    loss.backward();
    clip_grad_norm(arena, 1);
    optimizer.step();
    last_loss = loss.item();
  }
  return {arena.values().to_doubles(), last_loss};
}

TEST_CASE("two training runs with one seed end at the same bits, by either GEMM", "[optim]") {
  for (const GemmBackend backend : {GemmBackend::own, gemm_backend()}) {
    const GemmScope scope(backend);
    const Trained first = train(11), second = train(11);
    CHECK(first.parameters == second.parameters);
    CHECK(first.loss == second.loss);
    CHECK(first.parameters != train(12).parameters);
    CHECK(first.loss < 0.6);  // it has learnt: log(3) = 1.1 by guessing
  }
}

GPU_TEST_CASE("training on the GPU repeats itself bit for bit and learns what the CPU learns", "[optim]") {
  const Device gpu = Device::parse("cuda");
  const Trained first = train(11, gpu), second = train(11, gpu);
  CHECK(first.parameters == second.parameters);
  CHECK(first.loss == second.loss);
  CHECK(is_close(first.loss, train(11).loss, 0.01));  // 60 steps carry rounding on, but not far
}

TEST_CASE("the sum over micro-batches is the gradient of the whole batch", "[optim]") {
  manual_seed(2);
  const std::shared_ptr<Sequential> model = make_mlp({8, 16, 3});
  ParameterArena arena(*model, Device{});
  const Tensor x = randn({12, 8});
  Values labels;
  for (int i = 0; i < 12; ++i) labels.push_back(i % 3);
  const Tensor targets = tensor_of(labels, {12}, DType::i64);
  const CrossEntropyOptions of_sum{.reduction = Reduction::sum};

  cross_entropy((*model)(x), targets, of_sum).backward();
  const Values whole = arena.gradients().to_doubles();
  arena.zero_grad();
  for (int part = 0; part < 3; ++part) {
    cross_entropy((*model)(x.alias({4, 8}, 32 * part)), targets.alias({4}, 4 * part), of_sum).backward();
  }
  // sums of 12 terms below 4, in another order
  check_close(arena.gradients().to_doubles(), whole, 1e-6, 1e-6);
}

}  // namespace
}  // namespace ringtape::test
