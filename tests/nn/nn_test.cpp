#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/eval_scope.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using Values = std::vector<double>;
using Names = std::vector<std::string>;

Names names_of(Module& model) {
  Names names;
  for (const NamedParameter& parameter : model.named_parameters()) names.push_back(parameter.name);
  return names;
}

/// An encoder, its decoder with the encoder's weight, and a separate scale.
class Tied : public Module {
 public:
  Tied() {
    scale_ = &register_parameter("scale", tensor_of({2, 3}, {2}));
    encoder_ = register_module("encoder", std::make_shared<Linear>(3, 2, false));
    share_parameter("decoder", encoder_->parameter("weight"));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor& weight = encoder_->parameter("weight");
    const Tensor hidden = (*encoder_)(x);
    return matmul(multiply(hidden, view(*scale_, {1, 2})), weight);
  }

 private:
  Tensor* scale_;
  std::shared_ptr<Linear> encoder_;
};

// ---- modules ----

TEST_CASE("parameters have PyTorch's names and shapes", "[nn]") {
  const auto inner = std::make_shared<Sequential>();
  inner->push_back(std::make_shared<Linear>(4, 5));
  inner->push_back(std::make_shared<ReLU>());
  Sequential model({inner, std::make_shared<Linear>(5, 2, false)});
  CHECK(names_of(model) == Names{"0.0.weight", "0.0.bias", "1.weight"});
  CHECK(model.parameter("0.0.weight").shape() == Shape{5, 4});
  CHECK(model.parameter("0.0.bias").shape() == Shape{5});
  CHECK(model.parameter("1.weight").requires_grad());
  CHECK_THROWS_WITH(model.parameter("1.bias"),
                    "no parameter is called '1.bias': there are 0.0.weight, 0.0.bias, 1.weight");
  CHECK(names_of(*make_mlp({784, 256, 128, 10})) ==
        Names{"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"});
}

TEST_CASE("a shared parameter is listed once, under the first name", "[nn]") {
  Tied model;
  CHECK(names_of(model) == Names{"scale", "decoder"});
}

TEST_CASE("a module in two places has its parameters listed once", "[nn]") {
  const auto layer = std::make_shared<Linear>(2, 2);
  Sequential model({layer, layer});
  CHECK(names_of(model) == Names{"0.weight", "0.bias"});
}

TEST_CASE("a module gives each name once, without a dot", "[nn]") {
  struct Named : Module {
    Named(const char* first, const char* second) {
      register_parameter(first, tensor_of({1}, {1}));
      register_module(second, std::make_shared<ReLU>());
    }
    Tensor forward(const Tensor& x) override { return x; }
  };
  CHECK_NOTHROW(Named("a", "b"));
  CHECK_THROWS_WITH(Named("a", "a"), ContainsSubstring("has a parameter 'a' already"));
  CHECK_THROWS_WITH(Named("a.b", "c"), ContainsSubstring("found 'a.b'"));
  CHECK_THROWS_WITH(Named("a", ""), ContainsSubstring("must not be empty"));
}

TEST_CASE("train and eval reach the modules inside", "[nn]") {
  const auto layer = std::make_shared<Linear>(2, 2);
  const auto inner = std::make_shared<Sequential>(std::vector<std::shared_ptr<Module>>{layer});
  Sequential outer({inner});
  CHECK((outer.is_training() && inner->is_training() && layer->is_training()));
  outer.eval();
  CHECK_FALSE((outer.is_training() || inner->is_training() || layer->is_training()));
  outer.train();
  CHECK((outer.is_training() && inner->is_training() && layer->is_training()));
}

TEST_CASE("layers compute what their names say", "[nn]") {
  Linear layer(2, 3);
  layer.parameter("weight").copy_from(tensor_of({1, 2, 3, 4, 5, 6}, {3, 2}));
  layer.parameter("bias").copy_from(tensor_of({10, 20, 30}, {3}));
  const NoGrad no_grad;
  CHECK(layer(tensor_of({1, -1}, {2})).to_doubles() == Values{9, 19, 29});
  CHECK(layer(tensor_of({1, 0, 0, 1}, {2, 1, 2})).shape() == Shape{2, 1, 3});
  CHECK(ReLU()(tensor_of({-1, 0, 2}, {3})).to_doubles() == Values{0, 0, 2});
  CHECK(Sequential()(tensor_of({5}, {1})).item() == 5);
  CHECK(mse_loss(tensor_of({1, 2}, {2}), tensor_of({3, 5}, {2})).item() == 6.5);
  CHECK(mse_loss(tensor_of({1, 2}, {2}), tensor_of({3, 5}, {2}), Reduction::sum).item() == 13);
  const Tensor even = tensor_of({1, 1, 1, 1}, {1, 4});
  CHECK(is_close(cross_entropy(even, tensor_of({3}, {1}, DType::i64)).item(), std::log(4.0), 1e-6));
}

TEST_CASE("layers of invalid sizes are refused", "[nn]") {
  CHECK_THROWS_WITH(Linear(0, 3), ContainsSubstring("found 0 inputs and 3 outputs"));
  CHECK_THROWS_WITH(Linear(3, -1), ContainsSubstring("-1 outputs"));
  CHECK_THROWS_WITH(make_mlp({5}), ContainsSubstring("found 1"));
  CHECK_THROWS_WITH(Sequential({nullptr}), ContainsSubstring("module 0 is null"));
  CHECK_THROWS_WITH(Linear(3, 2)(tensor_of({1, 2}, {1, 2})),
                    ContainsSubstring("f32[1, 2] on cpu does not fit weight"));
}

TEST_CASE("initial values follow their formulas", "[nn]") {
  Generator generator(1);
  Tensor x = empty({100, 400});
  init::kaiming_uniform(x, 0, generator);
  const double bound = std::sqrt(6.0 / 400);
  CHECK(largest_of(x.to_doubles()) <= bound);
  CHECK(largest_of(x.to_doubles()) > 0.999 * bound);
  init::uniform(x, 0.25, generator);
  CHECK(largest_of(x.to_doubles()) <= 0.25);
  CHECK(largest_of(x.to_doubles()) > 0.2499);
  init::normal(x, 3, generator);
  double squares = 0;
  for (double value : x.to_doubles()) squares += value * value;
  CHECK(is_close(std::sqrt(squares / 40000), 3, 5 / std::sqrt(2 * 40000.0)));
  Tensor bias = empty({3});
  CHECK_THROWS_WITH(init::kaiming_uniform(bias), ContainsSubstring("f32[3]"));
}

TEST_CASE("a seed fixes the initial values of a model", "[nn]") {
  manual_seed(3);
  const Values first = make_mlp({20, 10, 5})->parameter("2.weight").to_doubles();
  manual_seed(3);
  CHECK(make_mlp({20, 10, 5})->parameter("2.weight").to_doubles() == first);
  CHECK(make_mlp({20, 10, 5})->parameter("2.weight").to_doubles() != first);
}

// ---- the parameter arena ----

TEST_CASE("the arena holds the parameters in reverse order, each at a multiple of 256 bytes", "[nn]") {
  const std::shared_ptr<Sequential> model = make_mlp({5, 13, 3});  // 65 + 13 + 39 + 3 elements
  std::vector<Values> before;
  for (const NamedParameter& parameter : model->named_parameters())
    before.push_back(parameter.tensor->to_doubles());
  ParameterArena arena(*model, Device{});

  Names names;
  std::vector<std::int64_t> offsets;
  for (const ArenaEntry& entry : arena.entries()) {
    names.push_back(entry.name);
    offsets.push_back(entry.offset);
    CHECK(entry.tensor->raw() == arena.values().data<float>() + entry.offset);
    CHECK(reinterpret_cast<std::uintptr_t>(entry.tensor->raw()) % 256 == 0);
  }
  CHECK(names == Names{"2.bias", "2.weight", "0.bias", "0.weight"});
  CHECK(offsets == std::vector<std::int64_t>{0, 64, 128, 192});
  CHECK(arena.size() == 192 + 128);
  CHECK(arena.values().elements() == arena.size());
  CHECK(arena.parameter_elements() == 65 + 13 + 39 + 3);
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(model->named_parameters()[i].tensor->to_doubles() == before[i]);
  }
}

/// y = weight x; its first parameter has no elements.
class WithEmptyParameter : public Module {
 public:
  WithEmptyParameter() : weight_(&register_parameter("empty", zeros({0, 4}))) {
    weight_ = &register_parameter("weight", tensor_of({3, 4}, {2}));
  }
  Tensor forward(const Tensor& x) override { return multiply(*weight_, x); }

 private:
  Tensor* weight_;
};

TEST_CASE("a parameter without elements trains beside others", "[nn]") {
  WithEmptyParameter model;
  ParameterArena arena(model, Device{});
  CHECK(arena.parameter_elements() == 2);
  SGD optimizer(arena, {.learning_rate = 0.5});
  optimizer.zero_grad();
  sum(model(tensor_of({1, 2}, {2}))).backward();
  optimizer.step();
  CHECK(model.parameter("weight").to_doubles() == Values{2.5, 3});
  CHECK(model.parameter("empty").shape() == Shape{0, 4});
}

TEST_CASE("a parameter longer than a tile has several, and no tile crosses a parameter", "[nn]") {
  const std::shared_ptr<Sequential> model = make_mlp({100, 200, 3});  // 0.weight: 20000 elements
  ParameterArena arena(*model, Device{});
  std::int64_t covered = 0;
  for (std::int64_t i = 0; i < arena.tile_count(); ++i) {
    const Tile& tile = arena.tiles()[i];
    const ArenaEntry& entry = arena.entries()[static_cast<std::size_t>(tile.parameter)];
    CHECK((tile.length > 0 && tile.length <= kTileElements && tile.offset % kTileAlignment == 0));
    CHECK((tile.offset >= entry.offset && tile.offset + tile.length <= entry.offset + entry.elements));
    covered += tile.length;
  }
  CHECK(covered == arena.parameter_elements());
  CHECK(arena.tile_count() == 1 + 1 + 1 + 3);
}

TEST_CASE("gradients are ranges of the arena", "[nn]") {
  const std::shared_ptr<Sequential> model = make_mlp({2, 2});
  ParameterArena arena(*model, Device{});
  CHECK_FALSE(model->parameter("0.weight").grad().defined());  // none yet
  sum((*model)(tensor_of({1, 2}, {1, 2}))).backward();
  for (const ArenaEntry& entry : arena.entries()) {
    CHECK(entry.tensor->grad().raw() == arena.gradients().data<float>() + entry.offset);
  }
  CHECK(model->parameter("0.weight").grad().to_doubles() == Values{1, 2, 1, 2});
  CHECK(model->parameter("0.bias").grad().to_doubles() == Values{1, 1});
}

TEST_CASE("zero_grad makes the next backward write instead of add", "[nn]") {
  const std::shared_ptr<Sequential> model = make_mlp({2, 1});
  ParameterArena arena(*model, Device{});
  const auto backward = [&](double a, double b) { sum((*model)(tensor_of({a, b}, {1, 2}))).backward(); };
  backward(1, 2);
  backward(10, 20);
  CHECK(model->parameter("0.weight").grad().to_doubles() == Values{11, 22});
  arena.zero_grad();
  CHECK_FALSE(model->parameter("0.weight").grad().defined());
  backward(3, 4);
  CHECK(model->parameter("0.weight").grad().to_doubles() == Values{3, 4});
}

TEST_CASE("the arena knows which parameters have a gradient", "[nn]") {
  const std::shared_ptr<Sequential> model = make_mlp({2, 1});
  ParameterArena arena(*model, Device{});
  const auto has_grad = [&] {
    return std::vector<int>(arena.has_grad(), arena.has_grad() + arena.entries().size());
  };
  CHECK(has_grad() == std::vector<int>{0, 0});
  sum(model->parameter("0.weight")).backward();
  CHECK(has_grad() == std::vector<int>{0, 1});  // 0.bias comes first
  arena.zero_grad();
  CHECK(has_grad() == std::vector<int>{0, 0});
}

TEST_CASE("frozen parameters lie in the arena without gradient, entry or tile", "[nn]") {
  const std::shared_ptr<Sequential> model = make_mlp({5, 13, 3});
  model->parameter("0.weight").set_requires_grad(false);
  const Values frozen = model->parameter("0.weight").to_doubles();
  ParameterArena arena(*model, Device{});
  CHECK(arena.entries().size() == 3);
  CHECK(arena.size() == 3 * 64);
  CHECK(arena.tile_count() == 3);
  CHECK(arena.parameter_elements() == 65 + 13 + 39 + 3);
  CHECK(model->parameter("0.weight").to_doubles() == frozen);
  // Its place is after the others, in the same memory.
  CHECK(model->parameter("0.weight").raw() == arena.values().data<float>() + arena.size());

  AdamW optimizer(arena, {.weight_decay = 0.5});
  const auto step = [&] {
    optimizer.zero_grad();
    sum((*model)(tensor_of(Values(10, 1.0), {2, 5}))).backward();
    optimizer.step();
  };
  step();
  CHECK(model->parameter("0.weight").to_doubles() == frozen);
  CHECK_FALSE(model->parameter("0.weight").grad().defined());

  // Frozen after the arena was made: it keeps its place, but takes no further part.
  model->parameter("2.weight").set_requires_grad(false);
  const Values frozen_late = model->parameter("2.weight").to_doubles();
  optimizer.step();  // its gradient of the previous step is still there
  CHECK(model->parameter("2.weight").to_doubles() == frozen_late);
  step();
  CHECK(model->parameter("2.weight").to_doubles() == frozen_late);
}

TEST_CASE("optimizers keep state for the trainable parameters alone", "[nn]") {
  const std::shared_ptr<Sequential> model = make_mlp({784, 256, 10});
  model->parameter("0.weight").set_requires_grad(false);
  ParameterArena arena(*model, Device{});
  const std::size_t before = memory_stats({}).live;
  const Adam optimizer(arena);
  // two moments of 10 (64 with its padding) + 2560 + 256 elements, and some hundred bytes of scalars for each
  // parameter
  CHECK(memory_stats({}).live - before >= 2 * 4 * 2880);
  CHECK(memory_stats({}).live - before < 2 * 4 * 2880 + 2048);
}

TEST_CASE("a model without parameters, or with others than f32, has no arena", "[nn]") {
  ReLU relu_alone;
  CHECK_THROWS_WITH(ParameterArena(relu_alone, Device{}), ContainsSubstring("no parameters"));
  struct Wide : Module {
    Wide() { register_parameter("wide", tensor_of({1}, {1}, DType::f64)); }
    Tensor forward(const Tensor& x) override { return x; }
  } wide;
  CHECK_THROWS_WITH(ParameterArena(wide, Device{}), ContainsSubstring("wide must be f32, found f64[1]"));
}

TEST_CASE("an arena of frozen parameters alone has nothing to train", "[nn]") {
  const std::shared_ptr<Sequential> model = make_mlp({2, 1});
  model->requires_grad(false);
  const Values before = model->parameter("0.weight").to_doubles();
  ParameterArena arena(*model, Device{});
  CHECK(arena.entries().empty());
  CHECK(arena.size() == 0);
  Adam optimizer(arena);
  optimizer.step();
  CHECK(model->parameter("0.weight").to_doubles() == before);
  CHECK_FALSE((*model)(tensor_of({1, 2}, {1, 2})).requires_grad());
}

TEST_CASE("tied weights have one place in the arena and one gradient from both uses", "[nn]") {
  Tied model;
  model.parameter("decoder").copy_from(tensor_of({1, 2, 3, 4, 5, 6}, {2, 3}));
  ParameterArena arena(model, Device{});
  CHECK(arena.entries().size() == 2);
  const Tensor x = tensor_of({1, 0, -1}, {1, 3});
  sum(model(x)).backward();
  // h = W x = (-2, -2), y = W^T (s h) with s = (2, 3); the sum has dW[i,k] = s_i h_i + s_i x_k sum_l W[i,l]
  CHECK(model.parameter("decoder").grad().to_doubles() ==
        Values{-4 + 2 * 6, -4, -4 - 2 * 6, -6 + 3 * 15, -6, -6 - 3 * 15});
  CHECK(model.parameter("scale").grad().to_doubles() == Values{-2 * 6, -2 * 15});
  SGD optimizer(arena, {.learning_rate = 1});
  optimizer.step();
  CHECK(model.parameter("decoder").to_doubles() == Values{1 - 8, 2 + 4, 3 + 16, 4 - 39, 5 + 6, 6 + 51});
  CHECK(model(x).requires_grad());  // the module computes with the values in the arena
  Tape::current().clear();
}

/// A layer that computes something other than Linear does.
class Doubled : public Linear {
 public:
  using Linear::Linear;
  Tensor forward(const Tensor& x) override { return scale(Linear::forward(x), 2); }
};
class Negated : public ReLU {
 public:
  Tensor forward(const Tensor& x) override { return scale(ReLU::forward(x), -1); }
};

TEST_CASE("Sequential calls the forward of a class derived from Linear or ReLU, and the hooks of both",
          "[nn]") {
  const Tensor x = tensor_of({1, 2, -3, 4}, {2, 2});
  const auto layer = std::make_shared<Linear>(2, 3);
  const auto doubled = std::make_shared<Doubled>(2, 3);
  doubled->parameter("weight").copy_from(layer->parameter("weight"));
  doubled->parameter("bias").copy_from(layer->parameter("bias"));
  Sequential plain({layer, std::make_shared<ReLU>()}), other({doubled, std::make_shared<ReLU>()}),
      negated({layer, std::make_shared<Negated>()});
  const Values expected = plain(x).to_doubles();
  check_close(other(x).to_doubles(), scale(plain(x), 2).to_doubles(), 1e-6, 1e-6);
  check_close(negated(x).to_doubles(), scale(plain(x), -1).to_doubles(), 1e-6, 1e-6);

  const auto relu = std::make_shared<ReLU>();
  int calls = 0;
  layer->set_forward_hooks({.before = [&] { ++calls; }, .after = nullptr});
  relu->set_forward_hooks({.before = [&] { ++calls; }, .after = nullptr});
  check_close(Sequential({layer, relu})(x).to_doubles(), expected, 1e-6, 1e-6);
  CHECK(calls == 2);
  layer->set_forward_hooks({});
  Tape::current().clear();
}

/// Registers a tensor that is already a parameter.
class Twice : public Module {
 public:
  explicit Twice(const Tensor& weight) { register_parameter("weight", weight); }
  Tensor forward(const Tensor& x) override { return x; }
};

TEST_CASE("a parameter of one module cannot be registered as another's", "[nn]") {
  Linear layer(2, 3);
  CHECK_THROWS_WITH(Twice(layer.parameter("weight")),
                    ContainsSubstring("expected share_parameter() for tied weights"));
}

TEST_CASE("EvalScope restores the mode of each module", "[nn]") {
  const auto inner = std::make_shared<Sequential>(
      std::vector<std::shared_ptr<Module>>{std::make_shared<Dropout>(0.5), std::make_shared<Dropout>(0.5)});
  Sequential model({std::make_shared<Dropout>(0.5), inner});
  inner->named_modules()[1].module->eval();
  const auto modes = [&] {
    std::vector<bool> found = {model.is_training()};
    for (const NamedModule& each : model.named_modules()) found.push_back(each.module->is_training());
    return found;
  };
  const std::vector<bool> before = modes();
  {
    const EvalScope eval(model);
    CHECK(modes() == std::vector<bool>(before.size(), false));
  }
  CHECK(modes() == before);
  CHECK(std::count(before.begin(), before.end(), false) == 1);

  // A module of two parents, of which the second trains.
  const auto shared = std::make_shared<Dropout>(0.5);
  Sequential both({std::make_shared<Sequential>(std::vector<std::shared_ptr<Module>>{shared}),
                   std::make_shared<Sequential>(std::vector<std::shared_ptr<Module>>{shared})});
  shared->eval();
  { const EvalScope eval(both); }
  CHECK_FALSE(shared->is_training());
  CHECK(both.is_training());
}

}  // namespace
}  // namespace ringtape::test
