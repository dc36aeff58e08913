#include "autograd/recompute.h"

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/ceil_div.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using Values = std::vector<double>;
using Floats = std::vector<float>;

Tensor parameter(const char* name, const Shape& shape, std::uint64_t seed) {
  Tensor x = leaf(random_doubles(shape.elements(), seed), shape);
  x.autograd->name = name;
  return x;
}

/// The gradient so far, which the next backward then overwrites.
Floats take_gradient(const Tensor& x) {
  Floats values = x.grad().to_vector<float>();
  x.autograd->grad_written = false;
  return values;
}

/// Zeroes about half of the elements, different ones in every call.
Tensor dropout(const Tensor& x) {
  const Tensor zeros_and_ones = to(rand(x.shape(), DType::f32, x.device(), 0, 2), DType::i32);
  return multiply(x, to(zeros_and_ones, DType::f32));
}

/// A network with many layers, and a batch for it.
struct Deep {
  explicit Deep(Device device) : arena(*model, device), x(randn({9, 12}, DType::f32, device)) {}
  std::shared_ptr<Sequential> model = (manual_seed(1), make_mlp({12, 16, 16, 16, 16, 16, 16, 5}));
  ParameterArena arena;
  Tensor x;

  /// The loss, followed by all gradients.
  Floats train_once(std::int64_t modules) {
    model->set_recompute(modules);
    arena.zero_grad();
    const Tensor targets = to(from_vector<std::int64_t>({0, 1, 2, 3, 4, 0, 1, 2, -100}, {9}), arena.device());
    const Tensor loss = cross_entropy((*model)(x), targets);
    loss.backward();
    Floats values = loss.to_vector<float>();
    for (const ArenaEntry& entry : arena.entries()) {
      const Floats gradient = entry.tensor->grad().to_vector<float>();
      values.insert(values.end(), gradient.begin(), gradient.end());
    }
    return values;
  }
};

void check_every_segment_length(Device device) {
  Deep deep(device);
  const Floats expected = deep.train_once(0);
  for (std::int64_t modules : {1, 2, 3, 4, 5, 12, 13, 100}) {
    INFO("segments of " << modules << " modules");
    CHECK(deep.train_once(modules) == expected);
  }
}

}  // namespace

// ---- results ----

TEST_CASE("recomputed segments of any length leave loss and gradients as they are in every bit",
          "[recompute]") {
  check_every_segment_length(Device{});
}

GPU_TEST_CASE("recomputed segments leave loss and gradients as they are on the GPU too", "[recompute]") {
  check_every_segment_length(Device::parse("cuda"));
}

TEST_CASE("the second run of a segment has the random numbers of the first", "[recompute]") {
  const Tensor w = parameter("w", {8, 8}, 1);
  const Tensor x = tensor_of(random_doubles(64, 2), {8, 8});
  const auto layer = [&](const Tensor& input) { return dropout(relu(linear(input, w))); };
  struct Outcome {
    Floats loss, gradient, next;
    bool operator==(const Outcome&) const = default;
  };
  const auto train = [&](bool recomputed) {
    manual_seed(7);
    rand({5});
    const Tensor h = recomputed ? recompute(layer, x) : layer(x);
    const Tensor loss = sum(dropout(recomputed ? recompute(layer, h) : layer(h)));
    rand({1});  // random numbers drawn between forward and backward must not matter
    loss.backward();
    return Outcome{loss.to_vector<float>(), take_gradient(w), rand({4}).to_vector<float>()};
  };
  const Outcome expected = train(false);
  CHECK(train(true) == expected);
  CHECK(train(false) == expected);
}

TEST_CASE("segments inside a segment", "[recompute]") {
  const Tensor a = parameter("a", {4, 4}, 1), b = parameter("b", {4, 4}, 2);
  const Tensor x = tensor_of(random_doubles(12, 3), {3, 4});
  int runs = 0;
  const auto inner = [&](const Tensor& h) {
    ++runs;
    return dropout(relu(linear(h, b)));
  };
  const auto outer = [&](const Tensor& h) {
    const Tensor first = recompute(inner, relu(linear(h, a)));
    return recompute(inner, linear(first, a));
  };
  const auto train = [&](const std::function<Tensor(const Tensor&)>& model) {
    manual_seed(3);
    sum(model(x)).backward();
    return std::pair(take_gradient(a), take_gradient(b));
  };
  const auto expected = train([&](const Tensor& h) { return inner(linear(inner(relu(linear(h, a))), a)); });
  runs = 0;
  CHECK(train([&](const Tensor& h) { return recompute(outer, h); }) == expected);
  CHECK(runs == 2 * 3);  // in the forward, in the outer segment's second run, and in their own second run
}

TEST_CASE("a segment with several inputs, one of which other operations use too", "[recompute]") {
  const Tensor a = parameter("a", {6, 6}, 1), b = parameter("b", {6, 6}, 2);
  const Tensor w = parameter("w", {6, 6}, 3);
  const Segment segment = [&](const std::vector<Tensor>& in) {
    return relu(add(matmul(in[0], w), multiply(in[1], in[0])));
  };
  const auto train = [&](bool recomputed) {
    const Tensor h = scale(a, 1.5);  // used before, in and after the segment
    const Tensor before = matmul(h, b);
    const std::vector<Tensor> inputs = {h, before};
    const Tensor y = recomputed ? recompute(segment, inputs) : segment(inputs);
    sum(multiply(add(y, h), matmul(h, w))).backward();
    return std::vector{take_gradient(a), take_gradient(b), take_gradient(w)};
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("the gradient reaches the tensors that a segment has captured", "[recompute]") {
  const Tensor a = parameter("a", {2, 2}, 1);
  const Tensor h = scale(a, 2);
  const Tensor x = tensor_of({1, 2, 3, 4}, {2, 2});
  sum(recompute([h](const Tensor& in) { return multiply(h, in); }, x)).backward();
  CHECK(a.grad().to_doubles() == Values{2, 4, 6, 8});

  Tensor changed = scale(a, 2);
  const Tensor y = recompute([&](const Tensor& in) { return multiply(changed, in); }, x);
  CHECK_THAT(Tape::current().to_string(), ContainsSubstring("1  recompute        #0[2, 2] "));
  changed.copy_from(x);
  CHECK_THROWS_WITH(sum(y).backward(), ContainsSubstring("backward of recompute: a saved tensor"));
}

TEST_CASE("a segment that returns its input, or a tensor that needs no gradient", "[recompute]") {
  const Tensor a = leaf({1, 2}, {2});
  const auto pass = [](const Tensor& x) { return x; };
  for (double times : {1, 2}) {
    sum(multiply(recompute(pass, a), tensor_of({3, 4}, {2}))).backward();
    CHECK(a.grad().to_doubles() == Values{3 * times, 4 * times});
  }

  const Tensor y = recompute([&](const Tensor& x) { return scale(a, 3), scale(x, 2); }, tensor_of({5}, {1}));
  CHECK_FALSE(y.requires_grad());
  CHECK(y.to_doubles() == Values{10});
  CHECK(Tape::current().size() == 0);
}

TEST_CASE("a segment in 16 bits", "[recompute]") {
  const Tensor w = parameter("w", {8, 8}, 1);
  const Tensor x = tensor_of(random_doubles(64, 2), {8, 8});
  const auto layer = [&](const Tensor& in) { return relu(linear(in, to(w, in.dtype()))); };
  for (DType dtype : {DType::bf16, DType::f16}) {
    const auto train = [&](bool recomputed) {
      const Tensor h = layer(to(x, dtype));
      sum(to(recomputed ? recompute(layer, h) : layer(h), DType::f32)).backward();
      return take_gradient(w);
    };
    CHECK(train(true) == train(false));
  }
}

TEST_CASE("a segment runs once where nothing is recorded", "[recompute]") {
  const Tensor w = parameter("w", {2, 2}, 1);
  int runs = 0;
  const NoGrad no_grad;
  const Tensor y =
      recompute([&](const Tensor& x) { return ++runs, matmul(x, w); }, tensor_of({1, 0}, {1, 2}));
  CHECK(runs == 1);
  CHECK_FALSE(y.requires_grad());
  CHECK(Tape::current().size() == 0);
  CHECK_THROWS_WITH(recompute([](const Tensor&) { return Tensor(); }, tensor_of({1, 0}, {1, 2})),
                    ContainsSubstring("returned an undefined tensor"));
}

// ---- hooks ----

TEST_CASE("the hook of a recomputed parameter fires once, after its last use on the outer tape",
          "[recompute]") {
  const Tensor w = parameter("w", {4, 4}, 1);
  const Tensor x = tensor_of(random_doubles(16, 2), {4, 4});
  int calls = 0;
  Floats seen;
  w.autograd->post_accumulate_hooks.push_back([&] {
    ++calls;
    seen = w.grad().to_vector<float>();
  });
  const auto twice = [&](const Tensor& h) { return relu(linear(relu(linear(h, w)), w)); };
  const auto nested = [&](const Tensor& h) { return linear(recompute(twice, h), w); };
  const auto train = [&](const std::function<Tensor()>& forward) {
    calls = 0;
    sum(forward()).backward();
    CHECK(calls == 1);
    const Floats complete = take_gradient(w);
    CHECK(seen == complete);
    return complete;
  };
  SECTION("twice in one segment") {
    CHECK(train([&] { return recompute(twice, x); }) == train([&] { return twice(x); }));
  }
  SECTION("before, in and between segments") {
    const Floats expected = train([&] { return twice(linear(twice(linear(x, w)), w)); });
    CHECK(train([&] { return recompute(twice, linear(recompute(twice, linear(x, w)), w)); }) == expected);
  }
  SECTION("in a segment inside of a segment") {
    CHECK(train([&] { return recompute(nested, x); }) == train([&] { return linear(twice(x), w); }));
  }
  SECTION("in a segment that makes nothing of it") {
    const Tensor a = parameter("a", {4, 4}, 3);
    const auto ignores = [&](const Tensor& h) { return recompute(twice, h), linear(h, a); };
    CHECK(train([&] { return linear(recompute(ignores, x), w); }) ==
          train([&] { return linear(linear(x, a), w); }));
  }
  SECTION("a segment that the loss does not depend on") {
    recompute(twice, x);
    sum(linear(x, w)).backward();
    CHECK(calls == 1);
    recompute(twice, x);
    sum(leaf({1}, {1})).backward();
    CHECK(calls == 1);
  }
}

TEST_CASE("hooks of a recomputed network fire in the order of the segments", "[recompute]") {
  const std::shared_ptr<Sequential> model = make_mlp({3, 4, 4, 2});
  std::vector<std::string> order;
  for (const NamedParameter& each : model->named_parameters()) {
    each.tensor->autograd->post_accumulate_hooks.push_back([&, name = each.name] { order.push_back(name); });
  }
  model->set_recompute(2);
  sum((*model)(tensor_of({1, 2, 3}, {1, 3}))).backward();
  CHECK(order == std::vector<std::string>{"4.weight", "4.bias", "2.weight", "2.bias", "0.weight", "0.bias"});
}

// ---- memory and printing ----

TEST_CASE("the tape keeps the input of a segment and nothing else of it", "[recompute]") {
  const std::int64_t batch = 50, width = 40;
  const std::shared_ptr<Sequential> model = make_mlp({40, 40, 40, 40, 40, 40, 40, 40, 40});  // 15 modules
  const Tensor x = tensor_of(random_doubles(batch * width, 1), {batch, width});
  const std::size_t activation = batch * width * 4;
  const std::size_t block = round_up(activation, 256);
  const std::size_t start = memory_stats({}).live;
  const auto forward = [&](std::int64_t modules) {
    model->set_recompute(modules);
    return sum((*model)(x));
  };
  {
    const TapeScope scope;
    const Tensor loss = forward(0);
    CHECK(Tape::current().saved_bytes() == 8 * activation);  // x and seven ReLU outputs
  }
  CHECK(memory_stats({}).live == start);
  const TapeScope scope;
  const Tensor loss = forward(4);
  // Inputs of three segments of two layers each; the last two layers keep their inputs.
  CHECK(Tape::current().saved_bytes() == (3 + 2) * activation);
  CHECK(memory_stats({}).live == start + 4 * block + 256);  // x was there before; the loss is new
}

TEST_CASE("the peak of a recomputed deep network grows with the square root of its depth", "[recompute]") {
  const std::int64_t batch = 512, width = 16, segments = 8, layers = 8;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(segments * layers + 1), width);
  const std::shared_ptr<Sequential> model = make_mlp(sizes);
  const Tensor x = tensor_of(random_doubles(batch * width, 1), {batch, width});
  const std::size_t activation = batch * width * 4;
  const auto peak = [&](std::int64_t modules) {
    model->set_recompute(modules);
    sum((*model)(x)).backward();
    const std::size_t before = memory_stats({}).live;
    reset_peak_memory({});
    sum((*model)(x)).backward();
    return (memory_stats({}).peak - before) / activation;
  };
  // The result of each layer (the network's own is held until the statement ends), and two gradients: a
  // layer's input and output gradient.
  CHECK(peak(0) == segments * layers + 2);
  // Seven inputs of segments (x was there before), the tensors kept by the last segment, and the same two
  // gradients.
  CHECK(peak(2 * layers) == (segments - 1) + layers + 2);
}

TEST_CASE("the second result of a segment is freed where its backward does not read it", "[recompute]") {
  const Tensor w = parameter("w", {64, 64}, 1);
  const Tensor x = leaf(random_doubles(64 * 64, 2), {64, 64});
  std::size_t before = 0;
  for (int i = 0; i < 2; ++i) {  // the first allocates the gradients of w and x
    const Tensor loss = sum(recompute([&](const Tensor& h) { return linear(h, w); }, scale(x, 2)));
    before = memory_stats({}).live;
    reset_peak_memory({});
    loss.backward();
  }
  const std::size_t extra = memory_stats({}).peak - before;
  CHECK(extra / x.bytes() ==
        2);  // the gradient of the result, and the result or else the gradient of the input
}

TEST_CASE("after the backward of a segment nothing is recorded in the backward outside", "[recompute]") {
  const Tensor x = leaf({1, 2}, {2});
  Tensor y = tensor_of({1, 2}, {2});
  bool recorded = true;
  Tape::current().record("ask", {x}, y, {}, [&](BackwardContext&) { recorded = Tape::is_recording(); });
  sum(recompute([](const Tensor& h) { return scale(h, 2); }, y)).backward();
  CHECK_FALSE(recorded);
}

TEST_CASE("the printed tape shows segments, their parameters, and what they run again", "[recompute]") {
  const std::shared_ptr<Sequential> model = make_mlp({4, 3, 3, 2});
  const ParameterArena arena(*model, Device{});
  model->set_recompute(4);
  const Tensor loss = sum((*model)(tensor_of(Values(20, 1.0), {5, 4})));
  const std::string text = Tape::current().to_string(), dot = Tape::current().to_dot();
  Tape::current().clear();
  CHECK_THAT(
      text, ContainsSubstring("   0  recompute        0.weight[3, 4], 0.bias[3], 2.weight[3, 3], 2.bias[3]"));
  CHECK_THAT(text, ContainsSubstring("   1  linear           #0[5, 3], 4.weight[2, 3], 4.bias[2]"));
  // the input of 5 x 4 and two results of 5 x 3, 4 bytes each
  CHECK_THAT(text, ContainsSubstring("      runs 2 nodes again in backward, which keep 200 bytes then\n"));
  CHECK_THAT(dot, ContainsSubstring("keeps 80 B\\nruns 2 nodes again in backward"));
}

// ---- errors ----

TEST_CASE("a segment whose second run returns another shape is an error", "[recompute]") {
  const Tensor w = leaf({1, 2, 3, 4}, {2, 2});
  int runs = 0;
  const Tensor y = recompute([&](const Tensor& x) { return ++runs == 1 ? x : sum(x, 0); }, scale(w, 2));
  CHECK_THROWS_WITH(sum(y).backward(),
                    ContainsSubstring("returned f32[2, 2] in its first run and f32[2] on cpu in its second"));
  CHECK(Tape::current().size() == 0);
}

TEST_CASE("a segment whose second run uses other parameters is an error", "[recompute]") {
  const Tensor a = leaf({1, 2}, {2}), b = leaf({1, 2}, {2});
  const auto train = [&](const std::function<Tensor(int)>& segment) {
    int runs = 0;
    sum(recompute([&](const Tensor&) { return segment(++runs); }, a)).backward();
  };
  CHECK_THROWS_WITH(train([&](int run) { return scale(run == 1 ? a : b, 2); }),
                    ContainsSubstring("1 tensors with gradients in its first run and 1 in its second") &&
                        ContainsSubstring("not the same"));
  CHECK_THROWS_WITH(train([&](int run) { return run == 1 ? scale(a, 2) : add(a, b); }),
                    ContainsSubstring("1 tensors with gradients in its first run and 2 in its second"));
  CHECK_THROWS_WITH(train([&](int run) {
                      return run == 1 ? scale(a, 2) : tensor_of({1, 2}, {2});
                    }),
                    ContainsSubstring("in its first run and 0 in its second"));
  CHECK_FALSE(b.grad().defined());
  CHECK(Tape::current().size() == 0);
}

TEST_CASE("a parameter or input that changes between the runs is an error that names it", "[recompute]") {
  const Tensor w = parameter("encoder.weight", {2, 2}, 1);
  Tensor bias = parameter("encoder.bias", {2}, 2);  // linear's backward does not read it, the second run does
  Tensor x = tensor_of({1, 2, 3, 4}, {2, 2});
  const Tensor y = sum(recompute([&](const Tensor& in) { return linear(in, w, bias); }, x));
  SECTION("a bias") {
    bias.copy_from(tensor_of({0, 0}, {2}));
    CHECK_THROWS_WITH(y.backward(), ContainsSubstring("backward of recompute: encoder.bias") &&
                                        ContainsSubstring("changed in place after the forward"));
  }
  SECTION("the input, which needs no gradient") {
    x.copy_from(tensor_of({0, 0, 0, 0}, {2, 2}));
    CHECK_THROWS_WITH(y.backward(), ContainsSubstring("backward of recompute: a saved tensor"));
  }
  CHECK(Tape::current().size() == 0);
}

TEST_CASE("an optimizer step between forward and backward of a segment is an error", "[recompute]") {
  const std::shared_ptr<Sequential> model = make_mlp({2, 3, 3, 1});
  ParameterArena arena(*model, Device{});
  SGD optimizer(arena);
  model->set_recompute(2);
  const Tensor x = tensor_of({1, 2}, {1, 2});
  sum((*model)(x)).backward();
  const Tensor loss = sum((*model)(x));
  optimizer.step();
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("changed in place"));
}

TEST_CASE("an exception in either run of a segment leaves all tapes clean", "[recompute]") {
  const Tensor w = parameter("w", {2, 2}, 1);
  const Tensor x = tensor_of({1, 2, 3, 4}, {2, 2});
  const Floats expected = (sum(relu(matmul(x, w))).backward(), take_gradient(w));
  int runs = 0, hooks = 0, fails_in = 0;
  w.autograd->post_accumulate_hooks.push_back([&hooks] { ++hooks; });
  const auto segment = [&](const Tensor& in) {
    const Tensor y = matmul(in, w);
    rand({8});
    if (++runs == fails_in) fail("no luck");
    return relu(y);
  };
  const std::size_t live = memory_stats({}).live;
  const auto train = [&](int failing_run) {
    const TapeScope scope;
    runs = 0;
    fails_in = failing_run;
    sum(recompute([&](const Tensor& in) { return recompute(segment, in); }, x)).backward();
  };
  for (int run : {1, 2, 3}) {  // in the forward, in the outer segment's second run, in its own second run
    INFO("run " << run);
    manual_seed(5);
    CHECK_THROWS_WITH(train(run), ContainsSubstring("no luck"));
    CHECK(default_generator().offset == 2);  // as after one run
    CHECK(Tape::current().size() == 0);
    CHECK(Tape::is_recording());
    CHECK(memory_stats({}).live == live);
    CHECK(hooks == 0);
  }
  train(0);
  CHECK(hooks == 1);
  CHECK(take_gradient(w) == expected);
}

TEST_CASE("a recomputed segment without inputs to run on is an error", "[recompute]") {
  CHECK_THROWS_WITH(recompute([](const Tensor& x) { return x; }, Tensor()),
                    ContainsSubstring("an input is undefined"));
  CHECK_THROWS_WITH(recompute([](const Tensor&) { return Tensor(); }, tensor_of({1}, {1})),
                    ContainsSubstring("returned an undefined tensor"));
  CHECK_THROWS_WITH(recompute(nullptr, tensor_of({1}, {1})), ContainsSubstring("the segment is empty"));
  CHECK_THROWS_WITH(recompute(Segment(), std::vector<Tensor>{}), ContainsSubstring("the segment is empty"));
  CHECK_THROWS_WITH(make_mlp({1, 1})->set_recompute(-1), ContainsSubstring("found -1"));
}

TEST_CASE("a segment whose second run takes other random numbers is an error", "[recompute]") {
  Sequential model(
      {std::make_shared<Linear>(2, 4), std::make_shared<Dropout>(0.5), std::make_shared<Linear>(4, 2)});
  model.set_recompute(2);
  const Tensor loss = sum(model(tensor_of({1, 2}, {1, 2})));
  model.eval();
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("was train() or eval() called between them?"));
  CHECK(Tape::current().size() == 0);
}

}  // namespace ringtape::test
