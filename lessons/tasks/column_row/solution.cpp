#include "lessons/tasks/column_row/task.h"

void column_forward(const Rank& me, const Matrix& x, const Matrix& weight, const std::vector<float>& bias,
                    Matrix& y) {
  const int first = me.rank * y.columns;
  for (int r = 0; r < y.rows; ++r) {
    for (int j = 0; j < y.columns; ++j) {
      y.at(r, j) = bias[static_cast<std::size_t>(first + j)];
      for (int k = 0; k < x.columns; ++k) y.at(r, j) += x.at(r, k) * weight.at(first + j, k);
    }
  }
}

void column_backward(const Rank& me, const Matrix& dy, const Matrix& weight, Matrix& dx) {
  const int first = me.rank * dy.columns;
  for (int r = 0; r < dx.rows; ++r) {
    for (int k = 0; k < dx.columns; ++k) {
      for (int j = 0; j < dy.columns; ++j) dx.at(r, k) += dy.at(r, j) * weight.at(first + j, k);
    }
  }
  me.all_reduce(dx);
}

void row_forward(const Rank& me, const Matrix& x, const Matrix& weight, const std::vector<float>& bias,
                 Matrix& y) {
  const int first = me.rank * x.columns;
  for (int r = 0; r < y.rows; ++r) {
    for (int j = 0; j < y.columns; ++j) {
      for (int k = 0; k < x.columns; ++k) y.at(r, j) += x.at(r, k) * weight.at(j, first + k);
      // The bias is added once, by the first rank: the sum then has it.
      if (me.rank == 0) y.at(r, j) += bias[static_cast<std::size_t>(j)];
    }
  }
  me.all_reduce(y);
}
