#include "optim/accumulation.h"

#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "tests/catch.h"

using namespace ringtape;

namespace {

constexpr std::int64_t kInputs = 20, kClasses = 7;

/// A model with fixed weights, and data for it. Some targets are ignored.
struct Case {
  std::shared_ptr<Sequential> model = (manual_seed(3), make_mlp({kInputs, 33, kClasses}));
  ParameterArena arena{*model, Device{}};
  Tensor x;
  std::vector<std::int64_t> targets;

  explicit Case(std::int64_t samples) : x(randn({samples, kInputs})) {
    for (std::int64_t i = 0; i < samples; ++i) targets.push_back(i * 5 % kClasses);
  }

  std::int64_t targets_that_count() const {
    std::int64_t count = 0;
    for (std::int64_t target : targets) count += target != -100 ? 1 : 0;
    return count;
  }

  void backward(const MicroBatch& piece, const CrossEntropyOptions& options) {
    const Tensor part = x.alias({piece.size, kInputs}, piece.first * kInputs);
    const auto first = targets.begin() + piece.first;
    const Tensor y = from_vector(std::vector<std::int64_t>(first, first + piece.size), {piece.size});
    cross_entropy((*model)(part), y, options).backward();
  }

  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all;
    for (const ArenaEntry& entry : arena.entries()) {
      all.push_back(empty(entry.tensor->shape()));
      all.back().copy_from(entry.tensor->grad());
    }
    return all;
  }

  std::vector<Tensor> at_once() {
    arena.zero_grad();
    backward({0, x.size(0)}, {});  // the mean over the targets that count
    return gradients();
  }

  std::vector<Tensor> accumulated(const std::vector<MicroBatch>& pieces) {
    AccumulationWindow window;
    window.begin(targets_that_count());
    arena.zero_grad();
    for (const MicroBatch& piece : pieces) {
      backward(piece, {.reduction = Reduction::sum, .divisor = window.divisor()});
    }
    return gradients();
  }
};

/// Largest ||a - b|| / ||b|| of all parameters.
double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto left = a[i].to_doubles(), right = b[i].to_doubles();
    double distance = 0, norm = 0;
    for (std::size_t k = 0; k < left.size(); ++k) {
      distance += (left[k] - right[k]) * (left[k] - right[k]);
      norm += right[k] * right[k];
    }
    largest = std::max(largest, std::sqrt(distance / norm));
  }
  return largest;
}

}  // namespace

TEST_CASE("a window is cut into micro-batches, the last one short", "[accumulation]") {
  CHECK(cut_into_micro_batches(80, 10).size() == 8);
  const auto pieces = cut_into_micro_batches(20, 8);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[2].first == 16);
  CHECK(pieces[2].size == 4);
  CHECK(cut_into_micro_batches(0, 8).empty());
  CHECK_THROWS_WITH(cut_into_micro_batches(8, 0), ContainsSubstring("pieces of 0"));
}

TEST_CASE("accumulated gradients are those of the batch at once", "[accumulation]") {
  Case c(80);
  const auto expected = c.at_once();
  CHECK(difference(c.accumulated(cut_into_micro_batches(80, 10)), expected) < 1e-6);
  CHECK(difference(c.accumulated(cut_into_micro_batches(80, 33)), expected) < 1e-6);
  CHECK(difference(c.accumulated({{0, 1}, {1, 50}, {51, 29}}), expected) < 1e-6);
}

TEST_CASE("ignored targets are left out of the window's count", "[accumulation]") {
  Case c(80);
  for (std::size_t i = 10; i < 20; ++i) c.targets[i] = -100;  // a whole micro-batch of 10
  for (std::size_t i = 43; i < 47; ++i) c.targets[i] = -100;
  const auto expected = c.at_once();
  CHECK(difference(c.accumulated(cut_into_micro_batches(80, 10)), expected) < 1e-6);

  // Averaging the means of unequal micro-batches is another, wrong, gradient.
  c.arena.zero_grad();
  for (const MicroBatch& piece : cut_into_micro_batches(80, 33)) {
    c.backward(piece, {.reduction = Reduction::mean, .divisor = 3});
  }
  CHECK(difference(c.gradients(), expected) > 1e-3);
}

TEST_CASE("a window with nothing to count adds zero and is counted", "[accumulation]") {
  Case c(20);
  c.targets.assign(20, -100);
  for (const Tensor& gradient : c.accumulated(cut_into_micro_batches(20, 10))) {
    for (double value : gradient.to_doubles()) CHECK(value == 0);
  }
  AccumulationWindow window;
  window.begin(0);
  CHECK(window.targets() == 0);
  CHECK(window.divisor() == 1);
  CHECK(window.empty_windows() == 1);
}

TEST_CASE("with several ranks the divisor is the window's count over the ranks", "[accumulation]") {
  AccumulationWindow window(4, [](std::int64_t own) { return own + 10 + 20 + 30; });
  window.begin(40);
  CHECK(window.targets() == 100);
  CHECK(window.divisor() == 25);
  CHECK_THROWS_WITH(AccumulationWindow(2), ContainsSubstring("2 ranks need"));
}
