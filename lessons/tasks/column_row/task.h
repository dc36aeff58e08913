#pragma once

#include <cstddef>
#include <functional>
#include <vector>

/// A matrix, one row after the other.
struct Matrix {
  int rows, columns;
  std::vector<float> elements;
  float& at(int row, int column) { return elements[static_cast<std::size_t>(row * columns + column)]; }
  float at(int row, int column) const { return elements[static_cast<std::size_t>(row * columns + column)]; }
};

/// One of the ranks that divide the layers between them.
struct Rank {
  int rank, ranks;
  std::function<void(Matrix& x)> all_reduce;  ///< x becomes the sum over the ranks; all ranks must call it
};

// A layer is y = x weight^T + bias, with weight [outputs, inputs]: y(r, j) = sum over k of x(r, k) weight(j,
// k), plus bias[j]. Every rank is given the whole weight and the whole bias, and uses its part of them.
// The outputs of a column layer and the inputs of a row layer are a multiple of the number of ranks. Results
// have their size, and are 0 at first.

/// x [n, inputs] is the same on all ranks. y [n, outputs / ranks]: the columns of this rank, which are those
/// from rank * outputs / ranks on.
extern "C" void column_forward(const Rank& me, const Matrix& x, const Matrix& weight,
                               const std::vector<float>& bias, Matrix& y);

/// The gradient dx [n, inputs] of column_forward's x, the same on all ranks, from dy [n, outputs / ranks],
/// the gradient of the rank's y: dx(r, k) = sum over the outputs j of all ranks of dy(r, j) weight(j, k).
extern "C" void column_backward(const Rank& me, const Matrix& dy, const Matrix& weight, Matrix& dx);

/// x [n, inputs / ranks] has the columns of this rank, as column_forward divides them. y [n, outputs] is the
/// whole result, the same on all ranks.
extern "C" void row_forward(const Rank& me, const Matrix& x, const Matrix& weight,
                            const std::vector<float>& bias, Matrix& y);
