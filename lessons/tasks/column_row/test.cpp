#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "lessons/ranks.h"
#include "lessons/tasks/column_row/task.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/ranks_in_threads.h"
#include "lessons/tasks/tests.h"
#include "nn/parameter_shard.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using Forward = decltype(::column_forward);
using Backward = decltype(::column_backward);
using Floats = std::vector<float>;

/// Both layers on one rank, and their input: two samples, the first with the lesson's numbers.
struct Example {
  Matrix x = {2, 2, {1, 2, -1, 3}};
  Matrix a = {4, 2, {1, 1, 1, -1, 2, 0, -1, 1}}, b = {2, 4, {1, 1, 1, -2, -2, 1, 2, -1}};
  Floats a_bias = {10, 20, 30, 40}, b_bias = {100, 200};
};

Matrix zeros_of(int rows, int columns) {
  return {rows, columns, Floats(static_cast<std::size_t>(rows * columns))};
}

/// Columns of x, those of part `part` of `parts`.
Matrix columns_of(const Matrix& x, int part, int parts) {
  Matrix own = zeros_of(x.rows, x.columns / parts);
  for (int r = 0; r < own.rows; ++r) {
    for (int c = 0; c < own.columns; ++c) own.at(r, c) = x.at(r, part * own.columns + c);
  }
  return own;
}

/// x weight^T + bias, `times` times the bias.
Matrix product(const Matrix& x, const Matrix& weight, const Floats& bias, int times) {
  Matrix y = zeros_of(x.rows, weight.rows);
  for (int r = 0; r < y.rows; ++r) {
    for (int j = 0; j < y.columns; ++j) {
      y.at(r, j) = static_cast<float>(times) * bias[static_cast<std::size_t>(j)];
      for (int k = 0; k < x.columns; ++k) y.at(r, j) += x.at(r, k) * weight.at(j, k);
    }
  }
  return y;
}

std::string text_of(const Matrix& x) {
  return fmt::format("{}", fmt::join(x.elements.begin(), x.elements.begin() + x.columns, ", "));
}

/// Runs `layer(rank, result)` on all ranks; `calls` has the number of each one's all_reduces.
std::vector<Matrix> on_ranks(int ranks, const Matrix& empty, std::vector<int>& calls,
                             const std::function<void(const Rank&, Matrix&)>& layer) {
  RanksInThreads threads(ranks);
  std::vector<Matrix> results(static_cast<std::size_t>(ranks), empty);
  calls.assign(static_cast<std::size_t>(ranks), 0);
  threads.run([&](int rank) {
    const auto all_reduce = [&, rank](Matrix& x) {
      ++calls[static_cast<std::size_t>(rank)];
      Floats passed = x.elements, next = passed;
      for (int step = 1; step < ranks; ++step) {
        threads.exchange(rank, passed, next);
        for (std::size_t i = 0; i < next.size(); ++i) x.elements[i] += next[i];
        std::swap(passed, next);
      }
    };
    layer({rank, ranks, all_reduce}, results[static_cast<std::size_t>(rank)]);
  });
  return results;
}

void test_column_forward(Forward* forward, int ranks) {
  const Example e;
  std::vector<int> calls;
  const auto found = on_ranks(ranks, zeros_of(2, 4 / ranks), calls,
                              [&](const Rank& me, Matrix& y) { forward(me, e.x, e.a, e.a_bias, y); });
  if (calls[0] > 0)
    wrong("column_forward calls all_reduce, but its outputs are complete on the rank that has them");
  for (int rank = 0; rank < ranks; ++rank) {
    const Matrix& y = found[static_cast<std::size_t>(rank)];
    const Matrix expected = columns_of(product(e.x, e.a, e.a_bias, 1), rank, ranks);
    if (y.elements == expected.elements) continue;
    const std::string what =
        fmt::format("column_forward: rank {} of {} has {} of the first sample, expected {}", rank, ranks,
                    text_of(y), text_of(expected));
    if (y.elements == columns_of(product(e.x, e.a, e.a_bias, 0), rank, ranks).elements)
      wrong("{}: the bias is missing", what);
    if (y.elements == columns_of(product(e.x, e.a, e.a_bias, 1), 0, ranks).elements)
      wrong("{}: these are the outputs of rank 0", what);
    wrong("{}: x ({}), and of the weight the rows from {} on", what, text_of(e.x), rank * 4 / ranks);
  }
}

void test_column_backward(Backward* backward, int ranks) {
  const Example e;
  const Matrix dy = {2, 4, {-1, 0, 3, -3, 2, 1, 0, 5}};
  const Matrix transposed = {2, 4, {1, 1, 2, -1, 1, -1, 0, 1}};
  const Matrix expected = product(dy, transposed, {0, 0}, 1);
  std::vector<int> calls;
  const auto found = on_ranks(ranks, zeros_of(2, 2), calls, [&](const Rank& me, Matrix& dx) {
    backward(me, columns_of(dy, me.rank, ranks), e.a, dx);
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const Matrix& dx = found[static_cast<std::size_t>(rank)];
    if (dx.elements == expected.elements) continue;
    const std::string what =
        fmt::format("column_backward: rank {} of {} has {} of the first sample, expected {}", rank, ranks,
                    text_of(dx), text_of(expected));
    const Matrix own = product(columns_of(dy, rank, ranks), columns_of(transposed, rank, ranks), {0, 0}, 1);
    if (dx.elements == own.elements) {
      wrong(
          "{}: that is its own part of the gradient; all outputs depend on x, so the sum over the ranks is "
          "it",
          what);
    }
    wrong(
        "{}: dx(r, k) is the sum over the rank's outputs j of dy(r, j) weight(first + j, k), then over the "
        "ranks",
        what);
  }
}

void test_row_forward(Forward* forward, int ranks) {
  const Example e;
  const Matrix x = {2, 4, {3, 0, 2, 1, 1, 2, 3, 4}};
  const Matrix expected = product(x, e.b, e.b_bias, 1);
  std::vector<int> calls;
  const auto found = on_ranks(ranks, zeros_of(2, 2), calls, [&](const Rank& me, Matrix& y) {
    forward(me, columns_of(x, me.rank, ranks), e.b, e.b_bias, y);
  });
  Matrix first_columns = zeros_of(2, 2);  // the sum where all ranks take those of rank 0
  for (int rank = 0; rank < ranks; ++rank) {
    const Matrix part = product(columns_of(x, rank, ranks), columns_of(e.b, 0, ranks), {0, 0}, 0);
    for (std::size_t i = 0; i < part.elements.size(); ++i) first_columns.elements[i] += part.elements[i];
  }
  for (std::size_t i = 0; i < 4; ++i) first_columns.elements[i] += e.b_bias[i % 2];
  for (int rank = 0; rank < ranks; ++rank) {
    const Matrix& y = found[static_cast<std::size_t>(rank)];
    if (y.elements == expected.elements) continue;
    const std::string what = fmt::format("row_forward: rank {} of {} has {} of the first sample, expected {}",
                                         rank, ranks, text_of(y), text_of(expected));
    if (calls[static_cast<std::size_t>(rank)] == 0)
      wrong("{}: without an all_reduce a rank has its part of the sum", what);
    if (y.elements == product(x, e.b, e.b_bias, 0).elements) wrong("{}: the bias is missing", what);
    if (y.elements == product(x, e.b, e.b_bias, ranks).elements)
      wrong("{}: the bias is in it {} times, and belongs there once", what, ranks);
    if (y.elements == first_columns.elements)
      wrong("{}: each rank multiplies by the columns of rank 0; input k of a rank is input first + k of all",
            what);
    wrong("{}: the sum over the ranks of x(r, k) weight(j, first + k), plus bias[j]", what);
  }
}

Matrix matrix_of(const Tensor& x) {
  const auto* const data = x.data<float>();
  return {static_cast<int>(x.size(0)), static_cast<int>(x.size(1)), Floats(data, data + x.elements())};
}

Tensor tensor_of(const Matrix& x) {
  return from_vector(x.elements, {x.rows, x.columns});
}

/// The learner's layers on the tape, with whole weights of which a rank uses and trains its part.
struct LearnersLayers {
  Forward *column, *row;
  Backward* column_back;
  std::shared_ptr<Communicator> comm;

  Rank me() const {
    return {comm->rank(), comm->size(), [this](Matrix& x) {
              const Tensor sum = tensor_of(x);
              comm->all_reduce(sum, ReduceOp::sum).wait();
              x = matrix_of(sum);
            }};
  }
  ParameterShard part(int dim, const Tensor& whole) const {
    return {.dim = dim, .blocks = {whole.size(dim)}, .rank = comm->rank(), .ranks = comm->size()};
  }
  /// A gradient of the whole parameter that is zero but for the own part.
  static Tensor in_whole(const Tensor& own, const Tensor& whole, const ParameterShard& shard) {
    Tensor gradient = zeros(whole.shape());
    copy_into(gradient, own, shard);
    return gradient;
  }
  Tensor run(Forward* forward, const Tensor& x, const Tensor& weight, const Tensor& bias,
             std::int64_t columns) const {
    Matrix y = zeros_of(static_cast<int>(x.size(0)), static_cast<int>(columns));
    const auto* const b = bias.data<float>();
    forward(me(), matrix_of(x), matrix_of(weight), Floats(b, b + bias.elements()), y);
    return tensor_of(y);
  }
  Tensor column_layer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    Tensor y = run(column, x, weight, bias, weight.size(0) / comm->size());
    const auto backward = [this](BackwardContext& context) {
      const NoGrad no_grad;
      const Tensor dy = context.grad_output(), &own_x = context.saved(0), &whole = context.saved(1);
      Matrix dx = zeros_of(static_cast<int>(own_x.size(0)), static_cast<int>(own_x.size(1)));
      column_back(me(), matrix_of(dy), matrix_of(whole), dx);
      context.add_grad(0, tensor_of(dx));
      context.add_grad(1, in_whole(matmul(dy, own_x, true), whole, part(0, whole)));
      context.add_grad(2, in_whole(sum(dy, 0), context.saved(2), part(0, whole)));
    };
    Tape::current().record("column layer", {x, weight, bias}, y, {x, weight, bias}, backward);
    return y;
  }
  Tensor row_layer(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    Tensor y = run(row, x, weight, bias, weight.size(0));
    const auto backward = [this](BackwardContext& context) {
      const NoGrad no_grad;
      const Tensor dy = context.grad_output(), &whole = context.saved(1);
      context.add_grad(0, matmul(dy, part_of(whole, part(1, whole))));
      context.add_grad(1, in_whole(matmul(dy, context.saved(0), true), whole, part(1, whole)));
      context.add_grad(2, sum(dy, 0));
    };
    Tape::current().record("row layer", {x, weight, bias}, y, {x, weight}, backward);
    return y;
  }
};

/// The losses of a network of 8-8-32-4; with `layers`, its last two layers are the learner's.
std::vector<double> losses_with(const LearnersLayers* layers) {
  manual_seed(0);
  const auto model = make_mlp({8, 8, 32, 4});
  ParameterArena arena(*model, Device());
  SGD sgd(arena, {.learning_rate = 0.5});
  const Tensor x = randn({SmallModel::kSamples, 8});
  const SmallModel labelled;
  const auto of = [&](const char* name) -> Tensor& { return model->parameter(name); };
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    sgd.zero_grad();
    Tensor y;
    if (layers == nullptr) {
      y = (*model)(x);
    } else {
      const Tensor before = relu(linear(x, of("0.weight"), of("0.bias")));
      y = layers->row_layer(relu(layers->column_layer(before, of("2.weight"), of("2.bias"))), of("4.weight"),
                            of("4.bias"));
    }
    const Tensor loss = cross_entropy(std::move(y), labelled.labels(0, SmallModel::kSamples));
    loss.backward();
    sgd.step();
    losses.push_back(loss.item());
  }
  return losses;
}

}  // namespace

void test_column_row(const LearnersFile& file) {
  for (const int ranks : {1, 2, 4}) {
    test_column_forward(file.function<Forward>("column_forward"), ranks);
    test_row_forward(file.function<Forward>("row_forward"), ranks);
    test_column_backward(file.function<Backward>("column_backward"), ranks);
  }
}

void run_column_row(const LearnersFile& file) {
  const auto comm = lessons::connect_ranks();
  check(32 % comm->size() == 0, "32 neurons cannot be divided among {} ranks", comm->size());
  const LearnersLayers layers = {file.function<Forward>("column_forward"),
                                 file.function<Forward>("row_forward"),
                                 file.function<Backward>("column_backward"), comm};
  const std::vector<double> by_mine = losses_with(&layers), by_library = losses_with(nullptr);
  if (lessons::prints(*comm)) {
    fmt::print("\n{} ranks, each with {} of 32 neurons:", comm->size(), 32 / comm->size());
    show_losses("your layers", by_mine, "one rank", by_library);
  }
}

}  // namespace ringtape::tasks
