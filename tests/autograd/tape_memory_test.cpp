// The tensors that the tape keeps, and for how long.
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/ceil_div.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "tests/support/catch.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

/// Bytes of an allocation of `elements` f32: a multiple of 256.
std::size_t block(std::size_t elements) {
  return round_up(elements * 4, 256);
}

using Values = std::vector<double>;

}  // namespace

// ---- fused cross-entropy ----

TEST_CASE("cross-entropy overwrites logits that nothing else holds, with the same values", "[tape]") {
  const Shape shape{37, 11};
  const Tensor x = leaf(random_doubles(shape.elements(), 3, -5, 5), shape);
  Values labels;
  for (int i = 0; i < 37; ++i) labels.push_back(i % 5 == 4 ? -100 : i % 11);
  const Tensor targets = tensor_of(labels, {37}, DType::i64);
  const CrossEntropyOptions options{.label_smoothing = 0.1};

  const auto saves_logits_alone = [] { return Tape::current().nodes().back().saved.size() == 1; };

  const Tensor held = scale(x, 1);
  const Tensor two_passes = cross_entropy(held, targets, options);
  CHECK_FALSE(saves_logits_alone());
  CHECK(held.to_doubles() == x.to_doubles());
  scale(two_passes, 3).backward();
  const Values expected = x.grad().to_doubles();

  x.autograd->grad_written = false;
  const std::size_t before = memory_stats({}).live;
  const Tensor fused = cross_entropy(scale(x, 1), targets, options);
  CHECK(saves_logits_alone());
  CHECK(memory_stats({}).live - before == block(37 * 11) + block(1));  // the logits and the loss
  CHECK(is_close(fused.item(), two_passes.item(), 1e-6));
  scale(fused, 3).backward();
  // f32: exp and the division are rounded the same way or differ by a few units
  check_close(x.grad().to_doubles(), expected, 1e-5, 1e-8);
}

TEST_CASE("cross-entropy does not overwrite logits that anything else may read", "[tape]") {
  const Tensor targets = tensor_of({0, 2}, {2}, DType::i64);
  const auto is_fused = [] { return Tape::current().nodes().back().saved.size() == 1; };
  SECTION("a leaf") {
    Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
    cross_entropy(std::move(x), targets);
    CHECK_FALSE(is_fused());
  }
  SECTION("a view of a leaf") {
    const Tensor x = leaf({1, 2, 3, 4, 5, 6}, {6});
    cross_entropy(view(x, {2, 3}), targets);
    CHECK_FALSE(is_fused());
    CHECK(x.to_doubles() == Values{1, 2, 3, 4, 5, 6});
  }
  SECTION("an output that its own operation needs for the backward") {
    const Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
    const Tensor loss = cross_entropy(relu(x), targets);
    CHECK_FALSE(is_fused());
    loss.backward();
    // softmax of (1, 2, 3) is (0.0900, 0.2447, 0.6652)
    check_close(x.grad().to_doubles(), {-0.45498, 0.12236, 0.33262, 0.04502, 0.12236, -0.16738}, 0, 1e-5);
  }
  SECTION("a tensor without a gradient") {
    cross_entropy(tensor_of({1, 2, 3, 4, 5, 6}, {2, 3}), targets);
    CHECK(Tape::current().size() == 0);
  }
  SECTION("under NoGrad") {
    const Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
    const NoGrad no_grad;
    const Tensor two_passes = cross_entropy(x, targets);
    CHECK(cross_entropy(scale(x, 1), targets).item() == two_passes.item());
  }
  Tape::current().clear();
}

// ---- memory ----

TEST_CASE("the tape keeps what the gradients of a 784-256-10 network need and nothing else", "[tape]") {
  const std::shared_ptr<Sequential> model = make_mlp({784, 256, 10});
  const Tensor x = tensor_of(random_doubles(64 * 784, 1), {64, 784});
  const Tensor targets = tensor_of(Values(64, 3), {64}, DType::i64);
  SECTION("cross-entropy in the place of the logits") {
    const Tensor loss = cross_entropy((*model)(x), targets);
    const std::size_t input = 64 * 784 * 4;  // for dW of the first layer
    const std::size_t hidden =
        64 * 256 * 4;  // ReLU's output, for its own gradient and for dW of the second layer
    const std::size_t dlogits = 64 * 10 * 4;  // the gradient in the place of the logits
    CHECK(Tape::current().saved_bytes() == input + hidden + dlogits);
  }
  SECTION("cross-entropy in two passes") {
    const Tensor logits = (*model)(x);
    const Tensor loss = cross_entropy(logits, targets);
    const std::size_t kept = 64 * 784 * 4 + 64 * 256 * 4 + 64 * 10 * 4;
    const std::size_t statistics = 64 * 2 * 4;  // maximum and sum of each row
    const std::size_t labels = 64 * 8;
    const std::size_t divisor = 4;
    CHECK(Tape::current().saved_bytes() == kept + statistics + labels + divisor);
  }
  Tape::current().clear();
}

TEST_CASE("the peak of memory in a training step is what the step needs", "[tape]") {
  const std::shared_ptr<Sequential> model = make_mlp({784, 256, 10});
  ParameterArena arena(*model, Device{});
  Adam optimizer(arena);
  const Tensor x = tensor_of(random_doubles(64 * 784, 1), {64, 784});
  const Tensor targets = tensor_of(Values(64, 3), {64}, DType::i64);
  const auto step = [&] {
    optimizer.zero_grad();
    cross_entropy((*model)(x), targets).backward();
    optimizer.step();
  };
  step();
  const std::size_t before = memory_stats({}).live;
  reset_peak_memory({});
  step();
  const std::size_t peak = memory_stats({}).peak - before;
  CHECK(memory_stats({}).live == before);

  // The forward holds most at the ReLU: its input and its output. The backward holds more at the second
  // layer: ReLU's output, the logits' gradient, and the layer's dx, which is the gradient from there on down;
  // and the loss, a block.
  const std::size_t hidden = block(64 * 256);
  const std::size_t logits = block(64 * 10);
  CHECK(peak == hidden + logits + hidden + block(1));
}

TEST_CASE("backward frees what a node saved as soon as it has run", "[tape]") {
  const Tensor x = leaf(Values(100000, 1.0), {100000});
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = multiply(scale(y, 1), scale(y, 1));
  const Tensor loss = sum(y);
  y = Tensor();
  const std::size_t before = memory_stats({}).live;
  reset_peak_memory({});
  loss.backward();
  // 20 results of scale() and 10 products less the last are alive before, and never many gradients with them.
  CHECK(memory_stats({}).peak <= before + 4 * block(100000));
}

}  // namespace ringtape::test
