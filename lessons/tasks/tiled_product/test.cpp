#include <atomic>
#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/simt/thread_order.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/run_kernel.h"
#include "lessons/tasks/tests.h"

namespace {
std::atomic<long> reads;  // of global memory, by read_global
}

extern "C" float read_global(const float* element) {
  ++reads;
  return *element;
}

namespace ringtape::tasks {
namespace {

using Kernel = void(const float* a, const float* b, float* c, int n, int k);

/// A matrix, row by row.
struct Matrix {
  int rows, columns;
  std::vector<float> values;
  float& at(int row, int column) { return values[static_cast<std::size_t>(row * columns + column)]; }
  float at(int row, int column) const { return values[static_cast<std::size_t>(row * columns + column)]; }
};

Matrix matrix(int rows, int columns) {
  return {rows, columns, std::vector<float>(static_cast<std::size_t>(rows * columns))};
}

/// Small whole numbers, so that no order of the additions rounds.
Matrix numbers(int rows, int columns, int seed) {
  Matrix result = matrix(rows, columns);
  for (int i = 0; i < rows * columns; ++i)
    result.values[static_cast<std::size_t>(i)] = static_cast<float>((i * seed + i / columns) % 11 - 5);
  return result;
}

Matrix transposed(const Matrix& m) {
  Matrix result = matrix(m.columns, m.rows);
  for (int row = 0; row < m.rows; ++row)
    for (int column = 0; column < m.columns; ++column) result.at(column, row) = m.at(row, column);
  return result;
}

/// a b, of the first `depth` of k.
Matrix product(const Matrix& a, const Matrix& b, int depth) {
  Matrix c = matrix(a.rows, b.columns);
  for (int row = 0; row < c.rows; ++row) {
    for (int column = 0; column < c.columns; ++column) {
      for (int i = 0; i < depth; ++i) c.at(row, column) += a.at(row, i) * b.at(i, column);
    }
  }
  return c;
}

Matrix product_by(Kernel* kernel, const Matrix& a, const Matrix& b) {
  Matrix c = matrix(a.rows, b.columns);
  c.values.assign(c.values.size(), NAN);
  run_kernel(kernel, {static_cast<unsigned>(b.columns / 16), static_cast<unsigned>(a.rows / 16)}, {16, 16},
             a.values.data(), b.values.data(), c.values.data(), b.columns, a.columns);
  return c;
}

[[noreturn]] void wrong_element(const char* what, const Matrix& found, const Matrix& expected) {
  for (int row = 0; row < found.rows; ++row) {
    for (int column = 0; column < found.columns; ++column) {
      if (found.at(row, column) != expected.at(row, column)) {
        wrong("{}: C[{}][{}] is {:g}, expected {:g}", what, row, column, found.at(row, column),
              expected.at(row, column));
      }
    }
  }
  wrong("{}: the result changes from run to run", what);
}

void test_one_tile(Kernel* kernel) {
  const Matrix a = numbers(16, 16, 3), b = numbers(16, 16, 7), expected = product(a, b, 16);
  product_by(kernel, numbers(16, 16, 5), numbers(16, 16, 9));  // leaves other tiles in shared memory
  const Matrix found = product_by(kernel, a, b);
  if (found.values == expected.values) return;
  if (found.values == matrix(16, 16).values) wrong("one tile: C is 0 everywhere: nothing is added up");
  if (found.values == product(a, transposed(b), 16).values) {
    wrong("one tile: C is A times the transpose of B: a thread's sum goes down a column of B's tile");
  }
  if (found.values == product(transposed(a), b, 16).values) {
    wrong("one tile: C is the transpose of A times B: a thread's sum goes along a row of A's tile");
  }
  // The tiles of the last run are still there: what was read too early is then right.
  if (product_by(kernel, a, b).values == expected.values) {
    wrong(
        "one tile: C is wrong at first, and right if the kernel runs again on the same tiles: a thread "
        "multiplies before all threads have copied; between the two there has to be a __syncthreads()");
  }
  wrong_element("one tile", found, expected);
}

void test_steps(Kernel* kernel) {
  const Matrix a = numbers(16, 48, 3), b = numbers(48, 16, 7), expected = product(a, b, 48);
  const Matrix found = product_by(kernel, a, b);
  if (found.values == expected.values) return;
  if (found.values == product(a, b, 16).values) {
    wrong("k = 48: C is the product of only the first 16 of k: there are k / 16 steps");
  }
  Matrix first = product(a, b, 16);
  for (float& value : first.values) value *= 3;
  if (found.values == first.values) wrong("k = 48: every step has the tiles of the first step");
  const simt::ThreadOrderScope other_order(simt::ThreadOrder::reversed);
  if (product_by(kernel, a, b).values != found.values) {
    wrong(
        "k = 48: C depends on the order of the threads, and with a single step it does not: a thread "
        "overwrites the tiles while others still multiply; after the products there has to be a "
        "__syncthreads()");
  }
  wrong_element("k = 48", found, expected);
}

void test_order(Kernel* kernel, simt::ThreadOrder order, std::uint64_t seed) {
  const simt::ThreadOrderScope scope(order, seed);
  const Matrix a = numbers(32, 64, 3), b = numbers(64, 48, 7), expected = product(a, b, 64);
  reads = 0;
  const Matrix found = product_by(kernel, a, b);
  if (found.values != expected.values) wrong_element("32 x 64 times 64 x 48", found, expected);
  const long enough = 2L * 32 * 64 * 48 / 16;
  if (reads == 0) wrong("no element was read by read_global(), which the test counts");
  if (reads != enough) {
    wrong(
        "32 x 64 times 64 x 48: the threads read {} elements of global memory, where {} are enough: every "
        "thread copies one element of each tile, and the products read shared memory",
        reads.load(), enough);
  }
}

}  // namespace

void test_tiled_product(const LearnersFile& file) {
  auto* const kernel = file.function<Kernel>("tiled_product");
  test_one_tile(kernel);
  test_steps(kernel);
  test_order(kernel, simt::ThreadOrder::forward, 0);
  test_order(kernel, simt::ThreadOrder::reversed, 0);
  test_order(kernel, simt::ThreadOrder::shuffled, 1);
}

/// A linear regression of 64 samples by gradient descent: the products are X W and the transpose of X times
/// the error.
void run_tiled_product(const LearnersFile& file) {
  auto* const kernel = file.function<Kernel>("tiled_product");
  constexpr int kSamples = 64, kFeatures = 32, kOutputs = 16;
  constexpr float kRate = 2.0F;
  manual_seed(0);
  const Tensor x = randn({kSamples, kFeatures}), y = randn({kSamples, kOutputs});
  const auto copy = [](const Tensor& t) {
    Matrix result = matrix(static_cast<int>(t.size(0)), static_cast<int>(t.size(1)));
    std::copy_n(t.data<float>(), result.values.size(), result.values.begin());
    return result;
  };
  const Matrix samples = copy(x), targets = copy(y), columns = transposed(samples);
  Matrix weights = matrix(kFeatures, kOutputs), library_weights = weights;
  std::vector<double> by_mine, by_library;
  for (int step = 0; step < 40; ++step) {
    Matrix error = product_by(kernel, samples, weights);
    double loss = 0;
    for (std::size_t i = 0; i < error.values.size(); ++i) {
      error.values[i] -= targets.values[i];
      loss += std::pow(error.values[i], 2) / (kSamples * kOutputs);
    }
    const Matrix gradient = product_by(kernel, columns, error);
    for (std::size_t i = 0; i < weights.values.size(); ++i)
      weights.values[i] -= kRate * 2 / (kSamples * kOutputs) * gradient.values[i];
    by_mine.push_back(loss);

    Tensor w = from_vector(library_weights.values, {kFeatures, kOutputs});
    w.set_requires_grad(true);
    const Tensor by_tape = mse_loss(matmul(x, w), y);
    by_tape.backward();
    const Matrix library_gradient = copy(w.grad());
    for (std::size_t i = 0; i < weights.values.size(); ++i)
      library_weights.values[i] -= kRate * library_gradient.values[i];
    by_library.push_back(by_tape.item());
  }
  show_losses("your product", by_mine, "the library's", by_library);
}

}  // namespace ringtape::tasks
