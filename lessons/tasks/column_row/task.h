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
  std::function<void(Matrix& x)> all_reduce;  ///< x = the sum over the ranks; all call it at the same time
};

// A layer is y = x weight^T + bias, with weight [outputs, inputs]: y(r, j) = sum over k of x(r, k) weight(j,
// k), plus bias[j]. Every rank is given the whole weight and the whole bias, and uses its part of them. The
// number of ranks divides what they divide. Results have their size, and begin with zeros.

/// x [n, inputs] is the same on all ranks. y [n, outputs / ranks]: the columns of this rank, which are those
/// from rank * outputs / ranks on.
extern "C" void column_forward(const Rank& me, const Matrix& x, const Matrix& weight,
                               const std::vector<float>& bias, Matrix& y);

/// The gradient dx [n, inputs] of column_forward's x, the same on all ranks, from that of the rank's y: dx(r,
/// k) = sum over all outputs j of dy(r, j) weight(j, k).
extern "C" void column_backward(const Rank& me, const Matrix& dy, const Matrix& weight, Matrix& dx);

/// x [n, inputs / ranks] are the columns of this rank, as column_forward has left them. y [n, outputs] is the
/// whole result, the same on all ranks.
extern "C" void row_forward(const Rank& me, const Matrix& x, const Matrix& weight,
                            const std::vector<float>& bias, Matrix& y);
