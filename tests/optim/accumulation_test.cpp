#include "optim/accumulation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"

using namespace ringtape;

namespace {

constexpr std::int64_t kInputs = 20, kClasses = 7;
constexpr int kMany = test::kCheckBuild ? 500 : 5000;  // 500: enough for the second case of the bound

/// A model with fixed weights, and data for it. Some targets are ignored.
struct Case {
  std::shared_ptr<Sequential> model = (manual_seed(3), make_mlp({kInputs, 33, 33, kClasses}));
  ParameterArena arena{*model, Device{}};
  Tensor x;
  std::vector<std::int64_t> targets;

  explicit Case(std::int64_t samples) : x(randn({samples, kInputs})) {
    for (std::int64_t i = 0; i < samples; ++i) targets.push_back(i * 5 % kClasses);
  }

  /// Non-ignored targets of the samples in these pieces.
  std::int64_t targets_that_count(const std::vector<MicroBatch>& pieces) const {
    std::int64_t count = 0;
    for (const MicroBatch& piece : pieces) {
      const auto first = targets.begin() + piece.first;
      count += piece.size - std::count(first, first + piece.size, -100);
    }
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

  std::vector<Tensor> at_once() { return at_once({0, x.size(0)}); }
  std::vector<Tensor> at_once(const MicroBatch& samples) {
    arena.zero_grad();
    backward(samples, {});  // the mean over the non-ignored targets
    return gradients();
  }

  std::vector<Tensor> accumulated(const std::vector<MicroBatch>& pieces) {
    AccumulationWindow window;
    window.begin(targets_that_count(pieces));
    arena.zero_grad();
    for (const MicroBatch& piece : pieces) {
      backward(piece, {.reduction = Reduction::sum, .divisor = window.divisor()});
    }
    return gradients();
  }
};

/// Largest ||a - b|| / ||b|| of all parameters, 0 where both are zero, infinite where one is NaN.
double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto left = a[i].to_doubles(), right = b[i].to_doubles();
    double distance = 0, norm = 0;
    for (std::size_t k = 0; k < left.size(); ++k) {
      distance += (left[k] - right[k]) * (left[k] - right[k]);
      norm += right[k] * right[k];
    }
    const double relative = distance == 0 ? 0 : std::sqrt(distance / norm);
    if (!(relative <= largest)) largest = std::isnan(relative) ? INFINITY : relative;
  }
  return largest;
}

bool equal_in_every_bit(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return x.to_doubles() == y.to_doubles(); });
}

}  // namespace

TEST_CASE("a window is cut into micro-batches, the last one short", "[accumulation]") {
  CHECK(cut_into_micro_batches(80, 10).size() == 8);
  const auto pieces = cut_into_micro_batches(20, 8);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[2].first == 16);
  CHECK(pieces[2].size == 4);
  CHECK(cut_into_micro_batches(0, 8).empty());
  CHECK_THROWS_WITH(cut_into_micro_batches(8, 0), ContainsSubstring("micro-batches of 0"));
}

TEST_CASE("accumulated gradients are those of the batch at once", "[accumulation]") {
  Case c(80);
  const auto expected = c.at_once();
  CHECK(difference(c.accumulated(cut_into_micro_batches(80, 10)), expected) < 1e-6);
  CHECK(difference(c.accumulated(cut_into_micro_batches(80, 33)), expected) < 1e-6);
  CHECK(difference(c.accumulated({{0, 1}, {1, 50}, {51, 29}}), expected) < 1e-6);
}

TEST_CASE("the comparison of gradients fails for NaN, and zero agrees with zero", "[accumulation]") {
  const float nan = std::nanf("");
  const std::vector<Tensor> zeros_ = {zeros({2}), zeros({2})}, ones = {full({2}, 1), full({2}, 1)};
  CHECK(difference(zeros_, zeros_) == 0);
  CHECK(difference(ones, ones) == 0);
  CHECK(std::isinf(difference(ones, zeros_)));
  CHECK(std::isinf(difference({full({2}, nan), ones[1]}, ones)));
  CHECK(std::isinf(difference({ones[0], full({2}, nan)}, ones)));
  CHECK(std::isinf(difference(ones, {full({2}, nan), ones[1]})));
}

TEST_CASE("rounding grows as the square root of the number of micro-batches", "[accumulation]") {
  // The k-th of n additions rounds k/n of the sum to 24 bits: errors of about sqrt(n) / 3 * 2^-24 together.
  for (const std::int64_t pieces : {8, kMany}) {
    Case c(pieces);
    const auto expected = c.at_once();
    const auto cut = cut_into_micro_batches(pieces, 1);
    const double allowed = std::max(1e-6, std::sqrt(static_cast<double>(pieces)) * 0x1p-24);
    CHECK(difference(c.accumulated(cut), expected) < allowed);
    const std::vector<MicroBatch> one_left_out(cut.begin() + 1, cut.end());
    CHECK(difference(c.accumulated(one_left_out), expected) > 20 * allowed);
  }
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

TEST_CASE("a short last window has its own divisor", "[accumulation]") {
  Case c(100);  // 80 samples, then 20: the second update is one of 20, not a quarter of one
  for (std::size_t i : {3u, 81u, 99u}) c.targets[i] = -100;
  const auto pieces = cut_into_micro_batches(100, 10);
  const std::vector<MicroBatch> full(pieces.begin(), pieces.begin() + 8),
      last(pieces.begin() + 8, pieces.end());
  CHECK(difference(c.accumulated(full), c.at_once({0, 80})) < 1e-6);
  CHECK(difference(c.accumulated(last), c.at_once({80, 20})) < 1e-6);
}

TEST_CASE("gradients without the scaling are far from those of the batch", "[accumulation]") {
  Case c(80);
  const auto expected = c.at_once();
  c.arena.zero_grad();
  for (const MicroBatch& piece : cut_into_micro_batches(80, 10)) c.backward(piece, {});
  CHECK(difference(c.gradients(), expected) == Approx(7).epsilon(1e-5));  // eight times as large
}

TEST_CASE("recomputation changes no bit of accumulated gradients", "[accumulation][recompute]") {
  Case c(80);
  for (std::size_t i = 15; i < 35; ++i) c.targets[i] = -100;
  for (const auto& pieces : {cut_into_micro_batches(80, 10), cut_into_micro_batches(80, 33)}) {
    c.model->set_recompute(0);
    const auto at_once = c.at_once(), kept = c.accumulated(pieces);
    for (std::int64_t modules : {1, 2, 4}) {
      c.model->set_recompute(modules);
      CHECK(equal_in_every_bit(c.accumulated(pieces), kept));
      CHECK(equal_in_every_bit(c.at_once(), at_once));
      CHECK(difference(kept, at_once) < 1e-6);
    }
  }
}

TEST_CASE("a window with nothing to count adds zero", "[accumulation]") {
  Case c(20);
  c.targets.assign(20, -100);
  for (const Tensor& gradient : c.accumulated(cut_into_micro_batches(20, 10))) {
    for (double value : gradient.to_doubles()) CHECK(value == 0);
  }
  AccumulationWindow window;
  window.begin(0);
  CHECK(window.targets() == 0);
  CHECK(window.divisor() == 1);
}

/// Replaces the gradients of all ranks by their mean, as an all-reduce does.
void reduce(std::vector<std::unique_ptr<Case>>& ranks) {
  const std::int64_t size = ranks[0]->arena.size();
  for (std::int64_t i = 0; i < size; ++i) {
    double sum = 0;
    for (const auto& rank : ranks) sum += rank->arena.gradients().data<float>()[i];
    for (const auto& rank : ranks) {
      rank->arena.gradients().data<float>()[i] = static_cast<float>(sum / static_cast<double>(ranks.size()));
    }
  }
}

TEST_CASE("reducing over ranks after every micro-batch gives the same as reducing once", "[accumulation]") {
  Case whole(90);
  for (std::size_t i = 20; i < 38; ++i) whole.targets[i] = -100;
  const auto expected = whole.at_once();
  const std::vector<MicroBatch> pieces = {{0, 5}, {5, 25}, {30, 10}, {40, 20}, {60, 21}, {81, 9}};
  const std::size_t n = 3;  // rank r has the pieces r and r + 3

  for (bool every_time : {false, true}) {
    std::vector<std::unique_ptr<Case>> ranks;
    for (std::size_t r = 0; r < n; ++r) {
      ranks.push_back(std::make_unique<Case>(90));
      ranks[r]->targets = whole.targets;
    }
    for (std::size_t step = 0; step < 2; ++step) {
      for (std::size_t r = 0; r < n; ++r) {
        AccumulationWindow window(n, [&](std::int64_t own) {
          CHECK(own == whole.targets_that_count({pieces[r], pieces[r + n]}));
          return whole.targets_that_count(pieces);
        });
        window.begin(whole.targets_that_count({pieces[r], pieces[r + n]}));
        ranks[r]->backward(pieces[r + step * n], {.reduction = Reduction::sum, .divisor = window.divisor()});
      }
      if (every_time) reduce(ranks);
    }
    if (every_time) {
      const auto once_more = ranks[0]->gradients();
      reduce(ranks);
      CHECK(equal_in_every_bit(ranks[0]->gradients(), once_more));
    } else {
      CHECK(difference(ranks[0]->gradients(), expected) > 0.1);
      reduce(ranks);
    }
    for (const auto& rank : ranks) CHECK(difference(rank->gradients(), expected) < 1e-6);
  }
}

TEST_CASE("with several ranks the divisor is the window's count over the ranks", "[accumulation]") {
  AccumulationWindow window(4, [](std::int64_t own) { return own + 10 + 20 + 30; });
  window.begin_with_all(44);  // no rank is asked
  CHECK(window.targets() == 44);
  CHECK(window.divisor() == 11);
  CHECK_THROWS_WITH(window.begin_with_all(-1), ContainsSubstring("found -1 targets on all ranks"));
  window.begin(40);
  CHECK(window.targets() == 100);
  CHECK(window.divisor() == 25);
  CHECK_THROWS_WITH(AccumulationWindow(2), ContainsSubstring("2 ranks need"));
}
