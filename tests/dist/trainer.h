#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "autograd/tape.h"
#include "core/error.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/sgd.h"
#include "tests/dist/ranks.h"

// Models and data for the tests of data parallelism and of compression.
namespace ringtape::test {

inline constexpr std::int64_t kInputs = 12, kClasses = 5;

inline std::shared_ptr<Communicator> this_run() {
  return all_communicators().front().communicator;
}

/// Samples, the same on all ranks; with `ignored`, some targets are ignored. Most are of class 0: with equal
/// numbers of each class the last bias's gradient would be a sum that cancels, with a large relative rounding
/// error.
struct Data {
  std::vector<double> x;
  std::vector<std::int64_t> targets;

  Data(std::int64_t samples, std::uint64_t seed, bool ignored = false)
      : x(random_doubles(samples * kInputs, seed)) {
    for (std::int64_t i = 0; i < samples; ++i) {
      const std::int64_t label = i % 4 == 3 ? i % kClasses : 0;
      targets.push_back(ignored && i % 3 == 1 ? -100 : label);
    }
  }
  std::int64_t counting(const MicroBatch& piece) const {
    const auto first = targets.begin() + piece.first;
    return piece.size - std::count(first, first + piece.size, -100);
  }
};

/// The samples of each rank.
inline std::vector<MicroBatch> shares_of(const std::string& kind, int world_size) {
  std::vector<MicroBatch> shares;
  std::int64_t first = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::int64_t size = kind == "equal"                             ? 6
                              : kind == "unequal"                         ? 3 + 4 * rank
                              : rank == world_size - 1 && kind == "empty" ? 0
                                                                          : 5;
    shares.push_back({first, size});
    first += size;
  }
  return shares;
}

/// A rank's samples, cut into `pieces`.
inline std::vector<MicroBatch> cut(const MicroBatch& share, std::int64_t pieces) {
  std::vector<MicroBatch> result;
  for (std::int64_t i = 0; i < pieces && share.size > 0; ++i) {
    const std::int64_t begin = share.size * i / pieces, end = share.size * (i + 1) / pieces;
    result.push_back({share.first + begin, end - begin});
  }
  return result;
}

/// A model with its arena and optimizer: a single-rank reference, or one rank of several.
struct Trainer {
  std::shared_ptr<Sequential> model;
  ParameterArena arena;
  SGD optimizer;

  explicit Trainer(Device device, std::uint64_t seed = 1)
      : model((manual_seed(seed), make_mlp({kInputs, 16, 16, kClasses}))),
        arena(*model, device),
        optimizer(arena, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}) {}

  void backward(const Data& data, const MicroBatch& piece, double divisor) {
    const TapeScope scope;
    const auto x = data.x.begin() + piece.first * kInputs;
    const auto y = data.targets.begin() + piece.first;
    const Tensor features =
        tensor_of({x, x + piece.size * kInputs}, {piece.size, kInputs}, DType::f32, arena.device());
    const Tensor targets =
        copy_to(from_vector(std::vector<std::int64_t>(y, y + piece.size), {piece.size}), arena.device());
    cross_entropy((*model)(features), targets, {.reduction = Reduction::sum, .divisor = divisor}).backward();
  }
  /// The gradient of all samples at once.
  void whole(const Data& data) {
    const MicroBatch all{0, std::ssize(data.targets)};
    backward(data, all, static_cast<double>(data.counting(all)));
  }
  void step() {
    optimizer.step();
    optimizer.zero_grad();
  }
};

/// Returns x; computing its gradient throws.
inline Tensor fail_in_backward(const Tensor& x) {
  Tensor y = x.detach();
  Tape::current().record("fail_in_backward", {x}, y, {}, [](BackwardContext&) { fail("half-way"); });
  return y;
}

/// Two layers that need not both be used: y = first(x) + second(x).
struct TwoBranches : Module {
  std::shared_ptr<Linear> first = register_module("first", std::make_shared<Linear>(3, 2));
  std::shared_ptr<Linear> second = register_module("second", std::make_shared<Linear>(3, 2));
  bool with_first = true, with_second = true;

  Tensor forward(const Tensor& x) override {
    Tensor y;
    if (with_first) y = (*first)(x);
    if (with_second) y = y.defined() ? add(y, (*second)(x)) : (*second)(x);
    return y;
  }
  static Tensor input(Device device) { return tensor_of({1, 2, 3}, {1, 3}, DType::f32, device); }
  void backward(Device device) { sum((*this)(input(device))).backward(); }
  /// A backward that computes the gradients of "second" and then, if it `fails`, throws before those of
  /// "first".
  void backward_half_way(Device device, bool fails) {
    const TapeScope scope;
    Tensor y = (*first)(input(device));
    if (fails) y = fail_in_backward(y);
    sum(add(y, (*second)(input(device)))).backward();
  }
};

}  // namespace ringtape::test
