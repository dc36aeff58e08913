#include "autograd/tape.h"
#include "autograd/ops.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

std::vector<std::string> operations_on_tape() {
  std::vector<std::string> names;
  for (const Node& node : Tape::current().nodes()) names.push_back(node.operation);
  return names;
}

using Names = std::vector<std::string>;
using Values = std::vector<double>;

// ---- recording ----

TEST_CASE("the tape holds the operations in the order of the forward and is empty after backward", "[tape]") {
  const Tensor x = leaf({1, -2, 3}, {3});
  const Tensor loss = sum(multiply(relu(scale(x, 2)), x));
  CHECK(operations_on_tape() == Names{"scale", "relu", "multiply", "sum"});
  loss.backward();
  CHECK(Tape::current().size() == 0);
  CHECK(x.grad().to_doubles() == Values{4, 0, 12});  // d(2 x^2)/dx where x > 0
}

TEST_CASE("backward runs the nodes last to first", "[tape]") {
  Names order;
  Tensor x = leaf({1}, {1});
  for (const char* name : {"first", "second", "third"}) {
    Tensor y = tensor_of({1}, {1});
    Tape::current().record(name, {x}, y, {}, [&order, name](BackwardContext& context) {
      order.push_back(name);
      context.add_grad(0, std::move(context.grad_output()));
    });
    x = y;
  }
  x.backward();
  CHECK(order == Names{"third", "second", "first"});
}

TEST_CASE("the 1 with which backward begins is written when a node reads it", "[tape]") {
  const Tensor x = leaf({3}, {1});
  std::vector<bool> is_one;
  Values read;
  const auto run = [&](const Tensor& gradient) {
    Tensor y = tensor_of({3}, {1}), z = tensor_of({3}, {1});
    const auto pass_on = [&](BackwardContext& context) {
      is_one.push_back(context.grad_output_is_one());
      read.push_back(context.grad_output().item());
      is_one.push_back(context.grad_output_is_one());
      context.add_grad(0, std::move(context.grad_output()));
    };
    Tape::current().record("inner", {x}, y, {}, pass_on);
    Tape::current().record("root", {y}, z, {}, pass_on);
    Tape::current().backward(z, gradient);
  };
  run({});
  CHECK(is_one == std::vector<bool>{true, false, false, false});
  run(tensor_of({1}, {1}));  // a 1 that is given counts as any other gradient
  CHECK(is_one == std::vector<bool>{true, false, false, false, false, false, false, false});
  CHECK(read == Values{1, 1, 1, 1});
  CHECK(x.grad().to_doubles() == Values{2});
}

TEST_CASE("operations on tensors without gradients are not recorded", "[tape]") {
  const Tensor a = tensor_of({1, 2}, {2});
  const Tensor y = sum(add(relu(a), scale(a, 3)));
  CHECK(Tape::current().size() == 0);
  CHECK_FALSE(y.requires_grad());
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("does not depend on any tensor with requires_grad"));
}

TEST_CASE("NoGrad switches recording off until its scope ends, nested too", "[tape]") {
  const Tensor x = leaf({1, 2}, {2});
  {
    const NoGrad outer;
    {
      const NoGrad inner;
      CHECK_FALSE(scale(x, 2).requires_grad());
    }
    CHECK_FALSE(scale(x, 2).requires_grad());
  }
  CHECK(Tape::current().size() == 0);
  CHECK(scale(x, 2).requires_grad());
  CHECK(Tape::current().size() == 1);
  Tape::current().clear();
}

TEST_CASE("a detached tensor passes no gradient on", "[tape]") {
  const Tensor x = leaf({2}, {1});
  const Tensor y = multiply(x, x.detach());
  y.backward();
  CHECK(x.grad().to_doubles() == Values{2});
}

TEST_CASE("each thread of the host has its own tape", "[tape]") {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor loss = sum(x);
  std::size_t size_elsewhere = 99;
  std::thread([&] { size_elsewhere = Tape::current().size(); }).join();
  CHECK(size_elsewhere == 0);
  CHECK(Tape::current().size() == 1);
  loss.backward();
}

// ---- errors of backward ----

TEST_CASE("a second backward says that the first has cleared the tape", "[tape]") {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor loss = sum(x);
  loss.backward();
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("f32[] on cpu") &&
                                         ContainsSubstring("is not on the tape") &&
                                         ContainsSubstring("a backward() has run since"));
  CHECK(x.grad().to_doubles() == Values{1, 1});
}

TEST_CASE("backward of more than one element needs a gradient of the root", "[tape]") {
  const Tensor x = leaf({1, 2, 3}, {3});
  const Tensor y = scale(x, 2);
  CHECK_THROWS_WITH(y.backward(),
                    ContainsSubstring("needs a single element") && ContainsSubstring("f32[3] on cpu"));
  CHECK(Tape::current().size() == 0);

  const Tensor z = scale(x, 2);
  const Tensor gradient = tensor_of({1, 10, 100}, {3});
  Tape::current().backward(z, gradient);
  CHECK(x.grad().to_doubles() == Values{2, 20, 200});
  CHECK(gradient.to_doubles() == Values{1, 10, 100});  // computed with, but not in its memory

  const Tensor w = scale(x, 2);
  CHECK_THROWS_WITH(Tape::current().backward(w, tensor_of({1, 2}, {2})),
                    "backward() from f32[3] on cpu: the gradient given is f32[2] on cpu, expected the same "
                    "shape and dtype");
  CHECK(Tape::current().size() == 0);
}

TEST_CASE("backward of a leaf is an error", "[tape]") {
  const Tensor x = leaf({1}, {1});
  CHECK_THROWS_WITH(x.backward(), ContainsSubstring("it is a leaf, which no operation has produced"));
}

TEST_CASE("a parameter that changes between forward and backward is an error that names it", "[tape]") {
  Linear layer(2, 2);
  layer.parameter("weight").autograd->name = "encoder.weight";
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  const Tensor loss = sum(layer(x));
  layer.parameter("weight").copy_from(tensor_of({0, 0, 0, 0}, {2, 2}));
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("backward of linear") &&
                                         ContainsSubstring("encoder.weight") &&
                                         ContainsSubstring("changed in place after the forward"));
  CHECK(Tape::current().size() == 0);
}

TEST_CASE("a saved gradient that backward adds to is an error", "[tape]") {
  const Tensor w = leaf({2, 3}, {2}), x = leaf({5, 7}, {2});
  sum(multiply(w, w)).backward();
  const Tensor reads = sum(multiply(x, w.grad())), adds = sum(multiply(w, w));  // whose backward comes first
  const Tensor loss = add(reads, adds);
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("backward of multiply") &&
                                         ContainsSubstring("changed in place after the forward"));
}

TEST_CASE("a node that has saved the gradient to which its backward adds is an error", "[tape]") {
  const Tensor w = leaf({2, 3, 5, 7}, {2, 2});
  sum(multiply(w, w)).backward();
  for (const bool is_first : {true, false}) {
    const Tensor loss = sum(is_first ? matmul(w, w.grad()) : matmul(w.grad(), w));
    CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("backward of matmul") &&
                                           ContainsSubstring("changed in place after the forward"));
  }
}

TEST_CASE("an optimizer step between forward and backward is an error", "[tape]") {
  const std::shared_ptr<Sequential> model = make_mlp({2, 3, 1});
  ParameterArena arena(*model, Device{});
  SGD optimizer(arena);
  const Tensor x = tensor_of({1, 2}, {1, 2});
  sum((*model)(x)).backward();
  const Tensor loss = sum((*model)(x));
  optimizer.step();
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("2.weight"));
}

TEST_CASE("changing a tensor that backward does not read is not an error", "[tape]") {
  Linear layer(2, 2);
  const Tensor x = tensor_of({1, 2, 3, 4}, {2, 2});  // needs no gradient, so the weight is not read again
  const Tensor loss = sum(layer(x));
  layer.parameter("weight").copy_from(tensor_of({0, 0, 0, 0}, {2, 2}));
  loss.backward();
  CHECK(layer.parameter("weight").grad().to_doubles() == Values{4, 6, 4, 6});
}

TEST_CASE("an error in the middle of backward leaves no gradient in flight", "[tape]") {
  const Tensor x = leaf({1, 2}, {2});
  Tensor middle = scale(x, 2);
  Tensor broken = tensor_of({1, 1}, {2});
  Tape::current().record("broken", {middle}, broken, {},
                         [](BackwardContext&) { throw std::runtime_error("broken on purpose"); });
  const Tensor loss = sum(add(middle, broken));
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("broken on purpose"));
  CHECK(Tape::current().size() == 0);
  CHECK_FALSE(middle.autograd->grad_written);
  CHECK_FALSE(middle.autograd->grad.defined());
  sum(x).backward();
  CHECK(x.grad().to_doubles() == Values{1, 1});
}

// ---- TapeScope ----

TEST_CASE("TapeScope discards a forward without a backward, and the tensors that it saved", "[tape]") {
  const Tensor x = leaf(Values(1000, 1.0), {1000});
  const Tensor before = scale(x, 2);
  const std::size_t live = memory_stats({}).live;
  {
    const TapeScope scope;
    relu(scale(x, 3));
    CHECK(Tape::current().size() == 3);
  }
  CHECK(Tape::current().size() == 1);
  CHECK(memory_stats({}).live == live);
  sum(before).backward();  // the nodes from before the scope still work
  CHECK(x.grad().to_doubles() == Values(1000, 2.0));
}

TEST_CASE("TapeScope clears the tape when an exception passes through it", "[tape]") {
  const Tensor x = leaf({1, 2}, {2});
  const auto forward = [&] {
    const TapeScope scope;
    add(scale(x, 3), tensor_of({1, 2, 3}, {3}));
  };
  CHECK_THROWS_AS(forward(), Error);
  CHECK(Tape::current().size() == 0);
}

TEST_CASE("backward inside a TapeScope gives the same gradients as without one", "[tape]") {
  const Tensor x = leaf({1, 2}, {2});
  {
    const TapeScope scope;
    sum(x).backward();
  }
  CHECK(x.grad().to_doubles() == Values{1, 1});
}

// ---- hooks ----

struct HookCount {
  explicit HookCount(const Tensor& parameter) {
    parameter.autograd->post_accumulate_hooks.push_back([this, &parameter] {
      ++calls;
      seen = parameter.grad().to_doubles();
    });
  }
  int calls = 0;
  Values seen;  ///< the gradient at the last call
};

TEST_CASE("a hook fires once per backward, when the gradient is complete", "[tape]") {
  const Tensor x = leaf({3}, {1});
  HookCount hook(x);
  SECTION("parameter used twice") {
    sum(add(multiply(x, x), scale(x, 10))).backward();
    CHECK(hook.calls == 1);
    CHECK(hook.seen == Values{16});
  }
  SECTION("twice in one operation") {
    sum(add(x, x)).backward();
    CHECK(hook.calls == 1);
    CHECK(hook.seen == Values{2});
  }
  SECTION("its first use on a branch that the loss does not depend on") {
    const Tensor unused = scale(x, 5);
    sum(scale(x, 2)).backward();
    CHECK(hook.calls == 1);
    CHECK(hook.seen == Values{2});
  }
  SECTION("two backwards without zero_grad") {
    sum(scale(x, 2)).backward();
    sum(scale(x, 2)).backward();
    CHECK(hook.calls == 2);
    CHECK(hook.seen == Values{4});
  }
}

TEST_CASE("a hook does not fire in a backward that the parameter took no part in", "[tape]") {
  const Tensor x = leaf({3}, {1});
  const Tensor other = leaf({1}, {1});
  HookCount hook(x);
  scale(x, 5);
  sum(other).backward();
  CHECK(hook.calls == 0);

  sum(x).backward();
  CHECK(hook.calls == 1);
  scale(x, 5);  // the gradient of the previous backward is still there
  sum(other).backward();
  CHECK(hook.calls == 1);
}

TEST_CASE("a hook of tied weights fires after both uses", "[tape]") {
  const Tensor w = leaf({1, 2, 3, 4}, {2, 2});
  HookCount hook(w);
  const Tensor x = tensor_of({1, 1}, {1, 2});
  sum(matmul(matmul(x, w), w, false, true)).backward();
  CHECK(hook.calls == 1);
  // y = x W W^T summed: with s = x W = (4, 6) and c = column sums of W = (4, 6): dW = x^T c + 1^T s
  CHECK(hook.seen == Values{4 + 4, 6 + 6, 4 + 4, 6 + 6});
}

TEST_CASE("several tapes at a time: backwards may come in any order, and a hook fires once in each",
          "[tape]") {
  // y = (w x) w of several lengths: on one of the tapes w's first use is node 0, on the other node 2.
  Tensor w = leaf({2.0}, {1});
  int calls = 0;
  w.autograd->post_accumulate_hooks.push_back([&] { ++calls; });
  Tape tapes[2];
  Tensor roots[2];
  for (int i = 0; i < 2; ++i) {
    const OnTape on(tapes[i]);
    Tensor x = leaf({3.0}, {1});
    if (i == 1) x = relu(relu(x));
    roots[i] = multiply(multiply(x, w), w);
  }
  CHECK(tapes[0].size() == 2);
  CHECK(tapes[1].size() == 4);
  CHECK(Tape::current().size() == 0);
  for (const int i : {0, 1}) {
    const OnTape on(tapes[i]);
    roots[i].backward();
    CHECK(calls == i + 1);
    CHECK(w.grad().to_doubles() == std::vector<double>{12.0 * (i + 1)});  // d(x w^2)/dw = 2 x w
    CHECK(tapes[i].size() == 0);
  }
}

TEST_CASE("hooks fire in the order in which backward completes the gradients", "[tape]") {
  const std::shared_ptr<Sequential> model = make_mlp({2, 3, 1});
  Names order;
  for (const NamedParameter& parameter : model->named_parameters()) {
    parameter.tensor->autograd->post_accumulate_hooks.push_back(
        [&order, name = parameter.name] { order.push_back(name); });
  }
  sum((*model)(tensor_of({1, 2}, {1, 2}))).backward();
  CHECK(order == Names{"2.weight", "2.bias", "0.weight", "0.bias"});
}

TEST_CASE("a function that a hook leaves for the end of backward is called once, or dropped by an exception",
          "[tape]") {
  const Tensor x = leaf({3}, {1}), y = leaf({4}, {1});
  Names log;
  bool first = true;
  y.autograd->post_accumulate_hooks.push_back([&] {
    log.push_back("y");
    if (first) Tape::current().at_end_of_backward([&] { log.push_back("end"); });
    first = false;
  });
  x.autograd->post_accumulate_hooks.push_back([&] { log.push_back("x"); });
  const auto backward = [&](bool fails) {
    Tensor of_x = scale(x, 2);
    if (fails) Tape::current().record("fails", {x}, of_x, {}, [](BackwardContext&) { fail("half-way"); });
    const Tensor of_y = scale(y, 2);
    sum(add(of_x, of_y)).backward();
  };
  backward(false);
  backward(false);
  CHECK(log == Names{"y", "x", "end", "y", "x"});
  first = true;
  log.clear();
  CHECK_THROWS_AS(backward(true), Error);
  backward(false);
  CHECK(log == Names{"y", "y", "x"});
}

// ---- gradients ----

TEST_CASE("gradients add up over backwards", "[tape]") {
  const Tensor x = leaf({1, 2}, {2});
  sum(scale(x, 2)).backward();
  sum(scale(x, 3)).backward();
  CHECK(x.grad().to_doubles() == Values{5, 5});
}

TEST_CASE("no two tensors share a gradient that one of them may add into", "[tape]") {
  SECTION("a + a") {
    const Tensor a = leaf({1, 2}, {2});
    sum(add(a, a)).backward();
    CHECK(a.grad().to_doubles() == Values{2, 2});
  }
  SECTION("a + b, then more for a") {
    const Tensor a = leaf({1, 2}, {2});
    const Tensor b = leaf({3, 4}, {2});
    sum(add(a, b)).backward();
    CHECK(a.grad().raw() != b.grad().raw());
    sum(scale(a, 10)).backward();
    CHECK(a.grad().to_doubles() == Values{11, 11});
    CHECK(b.grad().to_doubles() == Values{1, 1});
  }
  SECTION("a view and what it views") {
    const Tensor a = leaf({1, 2}, {2});
    const Tensor h = scale(a, 1);
    const Tensor v = view(h, {2, 1});
    // v's gradient passes its memory on to h, which another use then adds to
    sum(add(view(v, {2}), scale(h, 3))).backward();
    CHECK(a.grad().to_doubles() == Values{4, 4});
  }
  SECTION("intermediate used by several operations that compute in place") {
    const Tensor a = leaf({1, -2}, {2});
    const Tensor h = scale(a, 1);
    sum(add(add(relu(h), h), scale(h, 2))).backward();
    CHECK(a.grad().to_doubles() == Values{4, 3});
  }
}

TEST_CASE("the gradient of an intermediate is gone after backward", "[tape]") {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor h = scale(x, 2);
  sum(h).backward();
  CHECK_FALSE(h.grad().defined());
}

/// For each node of the tape, which of its inputs get a gradient.
std::vector<std::vector<bool>> needed_gradients() {
  std::vector<std::vector<bool>> needed;
  for (const Node& node : Tape::current().nodes()) {
    std::vector<bool> inputs;
    for (const NodeInput& input : node.inputs) inputs.push_back(input.meta != nullptr);
    needed.push_back(inputs);
  }
  return needed;
}

TEST_CASE("the first layer's input gets no gradient and its weight is not kept", "[tape]") {
  const std::shared_ptr<Sequential> model = make_mlp({64, 32, 8});
  const Tensor x = tensor_of(random_doubles(16 * 64, 1), {16, 64});
  const Tensor loss = sum((*model)(x));
  using Flags = std::vector<bool>;
  CHECK(needed_gradients() == std::vector<Flags>{{false, true, true}, {true, true, true}, {true}});
  const Node& first = Tape::current().nodes()[0];
  CHECK(first.saved[0].tensor.raw() == x.raw());
  CHECK_FALSE(first.saved[1].tensor.defined());

  // Allocations of this backward: the root's gradient, dy of the last layer, dx of the second, which ReLU and
  // the first layer use in place, and the gradients of four parameters.
  const std::size_t before = memory_stats({}).allocations;
  loss.backward();
  CHECK(memory_stats({}).allocations - before == 3 + 4);
}

TEST_CASE("a product keeps what the gradients asked for need and nothing else", "[tape]") {
  const Tensor x = leaf(Values(64, 1.0), {8, 8});
  const Tensor constant = tensor_of(Values(64, 2.0), {8, 8});
  const Tensor h = scale(x, 1);
  const auto kept_by = [&](const Tensor& y) {
    CHECK(y.requires_grad());
    const SavedTensor* saved = Tape::current().nodes().back().saved.data();
    return std::pair(saved[0].tensor.defined(), saved[1].tensor.defined());
  };
  CHECK(kept_by(linear(h, constant)) == std::pair(false, true));
  CHECK(kept_by(linear(constant, h)) == std::pair(true, false));
  CHECK(kept_by(matmul(h, constant)) == std::pair(false, true));
  CHECK(kept_by(matmul(constant, h)) == std::pair(true, false));
  CHECK(kept_by(multiply(h, constant)) == std::pair(false, true));
  CHECK(kept_by(multiply(constant, h)) == std::pair(true, false));
  Tape::current().clear();
}

TEST_CASE("a frozen parameter gets no gradient, and nothing is kept for it", "[tape]") {
  const std::shared_ptr<Sequential> model = make_mlp({4, 3, 2});
  model->parameter("0.weight").set_requires_grad(false);
  model->parameter("0.bias").set_requires_grad(false);
  const Tensor x = tensor_of(random_doubles(8, 1), {2, 4});
  sum((*model)(x)).backward();
  CHECK_FALSE(model->parameter("0.weight").grad().defined());
  CHECK_FALSE(model->parameter("0.bias").grad().defined());
  CHECK(model->parameter("2.weight").grad().defined());

  const Tensor loss = sum((*model)(x));
  CHECK(operations_on_tape() == Names{"linear", "sum"});  // the first layer and the ReLU are not on it
  Tape::current().clear();
}

TEST_CASE("requires_grad is for floating-point leaves", "[tape]") {
  CHECK_THROWS_WITH(tensor_of({1, 2}, {2}, DType::i64).set_requires_grad(true), ContainsSubstring("i64[2]"));
  CHECK_THROWS_WITH(tensor_of({1, 2}, {2}, DType::bf16).set_requires_grad(true),
                    ContainsSubstring("bf16[2]"));
  const Tensor x = leaf({1}, {1});
  Tensor y = scale(x, 2);
  CHECK_THROWS_WITH(y.set_requires_grad(false), ContainsSubstring("leaves only"));
  Tape::current().clear();
}

// ---- printing ----

TEST_CASE("the tape prints one line per node", "[tape]") {
  const std::shared_ptr<Sequential> model = make_mlp({4, 3, 2});
  const Tensor loss =
      cross_entropy((*model)(tensor_of(Values(20, 1.0), {5, 4})), tensor_of(Values(5, 1), {5}, DType::i64));
  const std::string text = Tape::current().to_string();
  CHECK_THAT(text, ContainsSubstring("   0  linear_relu      input[5, 4], 0.weight[3, 4], 0.bias[3]") ||
                       ContainsSubstring("   0  linear_relu      input[5, 4], weight[3, 4], bias[3]"));
  CHECK_THAT(text, ContainsSubstring("   1  linear           #0[5, 3]"));
  CHECK_THAT(text, ContainsSubstring("   2  cross_entropy    #1[5, 2]"));
  // the input of 5 x 4, ReLU's output of 5 x 3 and the logits' gradient of 5 x 2, 4 bytes each
  CHECK_THAT(text, ContainsSubstring("3 nodes keep 180 bytes for backward"));
  Tape::current().clear();
}

TEST_CASE("the drawing of the tape is a graph that Graphviz reads", "[tape]") {
  const std::shared_ptr<Sequential> model = make_mlp({4, 3, 2});
  const Tensor loss = sum((*model)(tensor_of(Values(20, 1.0), {5, 4})));
  const std::string dot = Tape::current().to_dot();
  Tape::current().clear();
  // v0 is the input, v1 and v2 are weight and bias
  CHECK_THAT(dot, ContainsSubstring("digraph tape {") &&
                      ContainsSubstring("v3 [shape=box, label=\"#0 linear_relu\\n[5, 3]"));
  CHECK_THAT(dot, ContainsSubstring("v3 -> v6;"));

  if (std::system("command -v dot > /dev/null") != 0) {
    std::puts("skipped: no program dot (Graphviz) here to read the drawing of a tape");
    return;
  }
  const TemporaryFolder folder;
  std::ofstream(folder / "tape.dot") << dot;
  const std::string command =
      "dot -Tsvg -o " + (folder / "tape.svg").string() + " " + (folder / "tape.dot").string();
  CHECK(std::system(command.c_str()) == 0);
}

// ---- size ----

TEST_CASE("a long tape runs and is freed without deep recursion", "[tape]") {
  constexpr int kNodes = kCheckBuild ? 20000 : 100000;  // ASan's stack frames are longer
  const Tensor x = leaf({1}, {1});
  const auto chain = [&] {
    Tensor y = x;
    for (int i = 0; i < kNodes; ++i) y = add(y, x);
    return y;
  };
  chain().backward();
  CHECK(x.grad().to_doubles() == Values{kNodes + 1});
  chain();
  Tape::current().clear();
}

}  // namespace
}  // namespace ringtape::test
