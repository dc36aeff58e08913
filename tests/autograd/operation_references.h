#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "tests/support/tensors.h"

// Reference results for the table of ops_test.cpp, in double, and the inputs that are not in it: targets and
// tokens.
namespace ringtape::test {

/// One element of a reference result: a sum in double, and the sum of the terms' magnitudes, which bounds the
/// rounding error.
struct Sum {
  double value = 0;
  double size = 0;
  Sum& operator+=(double term) {
    value += term;
    size += std::abs(term);
    return *this;
  }
  Sum& operator+=(const Sum& other) {
    value += other.value;
    size += other.size;
    return *this;
  }
};
inline Sum operator*(double factor, const Sum& sum) {
  return {factor * sum.value, std::abs(factor) * sum.size};
}
using Sums = std::vector<Sum>;

/// An input of the reference.
struct Array {
  Shape shape;
  std::vector<double> values;
  std::int64_t elements() const { return shape.elements(); }
  double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  double at(std::int64_t row, std::int64_t column) const { return (*this)[row * shape[1] + column]; }
};
using Arrays = const std::vector<Array>&;

inline Sums products(const Array& a, bool transpose_a, const Array& b, bool transpose_b) {
  const std::int64_t m = a.shape[transpose_a ? 1 : 0], k = a.shape[transpose_a ? 0 : 1];
  const std::int64_t n = b.shape[transpose_b ? 0 : 1];
  Sums c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) {
        c[i * n + j] += (transpose_a ? a.at(l, i) : a.at(i, l)) * (transpose_b ? b.at(j, l) : b.at(l, j));
      }
    }
  }
  return c;
}

inline Sums sums_over(const Array& x, int dim, bool mean) {
  std::int64_t outer = 1, mid = x.shape[dim], inner = 1;
  for (int i = 0; i < x.shape.dims(); ++i)
    (i < dim ? outer : i > dim ? inner : mid) *= i == dim ? 1 : x.shape[i];
  Sums y(static_cast<std::size_t>(outer * inner));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t m = 0; m < mid; ++m) {
      for (std::int64_t i = 0; i < inner; ++i) y[o * inner + i] += x[(o * mid + m) * inner + i];
    }
  }
  if (!mean) return y;
  for (Sum& sum : y) sum = (1.0 / static_cast<double>(mid)) * sum;
  return y;
}

inline Sums total(const Array& x, bool mean) {
  Sum sum;
  for (double value : x.values) sum += value;
  return {(mean ? 1.0 / static_cast<double>(x.elements()) : 1.0) * sum};
}

template <class Function>
inline Sums elementwise(const Array& x, Function function) {
  Sums y(x.values.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = function(static_cast<std::int64_t>(i));
  return y;
}

inline Sums squared_errors(const Array& a, const Array& b, bool mean) {
  Sum sum;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return {(mean ? 1.0 / static_cast<double>(a.elements()) : 1.0) * sum};
}

/// Target of a row in the cross-entropy tests; every fourth row is ignored.
inline std::int64_t target_of_row(std::int64_t row, std::int64_t classes) {
  return row % 4 == 3 ? -100 : row * 7 % classes;
}

inline Tensor targets_for(const Tensor& logits) {
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < logits.size(0); ++row)
    targets.push_back(target_of_row(row, logits.size(1)));
  return from_vector(targets, {logits.size(0)}, logits.device());
}

inline Sums cross_entropy_loss(const Array& x, bool mean, double smoothing) {
  const std::int64_t rows = x.shape[0], classes = x.shape[1];
  Sum loss;
  double count = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t target = target_of_row(row, classes);
    if (target < 0) continue;
    ++count;
    double largest = -INFINITY, sum = 0;
    for (std::int64_t j = 0; j < classes; ++j) largest = std::max(largest, x.at(row, j));
    for (std::int64_t j = 0; j < classes; ++j) sum += std::exp(x.at(row, j) - largest);
    Sum log_sum;
    (log_sum += largest) += std::log(sum);
    for (std::int64_t j = 0; j < classes; ++j) {
      const double weight = (j == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
      if (weight == 0) continue;
      loss += weight * log_sum;
      loss += -weight * x.at(row, j);
    }
  }
  return {(mean ? 1 / count : 1.0) * loss};
}

inline Sums concatenated(Arrays inputs, int dim) {  // of matrices
  Sums y;
  if (dim == 0) {
    for (const Array& x : inputs) {
      for (double value : x.values) y.push_back({value, 0});
    }
    return y;
  }
  for (std::int64_t row = 0; row < inputs[0].shape[0]; ++row) {
    for (const Array& x : inputs) {
      for (std::int64_t column = 0; column < x.shape[1]; ++column) y.push_back({x.at(row, column), 0});
    }
  }
  return y;
}

/// (x - mean) * rstd * weight + bias for each row, without `centred` with mean 0; bias may be null. The size
/// counts x and the mean apart, as their difference may cancel.
inline Sums normalised(const Array& x, const Array& weight, const Array* bias, bool centred) {
  const std::int64_t columns = weight.elements();
  Sums y;
  for (std::int64_t row = 0; row < x.elements() / columns; ++row) {
    const auto at = [&](std::int64_t column) { return x[row * columns + column]; };
    double mean = 0, variance = 0;
    for (std::int64_t j = 0; centred && j < columns; ++j) mean += at(j) / static_cast<double>(columns);
    for (std::int64_t j = 0; j < columns; ++j) {
      variance += (at(j) - mean) * (at(j) - mean) / static_cast<double>(columns);
    }
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    for (std::int64_t j = 0; j < columns; ++j) {
      Sum sum;
      sum += rstd * weight[j] * at(j);
      sum += -rstd * weight[j] * mean;
      if (bias != nullptr) sum += (*bias)[j];
      y.push_back(sum);
    }
  }
  return y;
}

inline Array sum_of(const Array& a, const Array& b) {
  Array sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += b.values[i];
  return sum;
}

inline Sums softmaxed(const Array& x) {
  const std::int64_t columns = x.shape[1];
  Sums y;
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    double largest = -INFINITY, sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) largest = std::max(largest, x.at(row, j));
    for (std::int64_t j = 0; j < columns; ++j) sum += std::exp(x.at(row, j) - largest);
    // The rounding of x - largest moves the result by that much relative to it.
    for (std::int64_t j = 0; j < columns; ++j) {
      const double value = std::exp(x.at(row, j) - largest) / sum;
      y.push_back({value, value * (1 + std::abs(x.at(row, j) - largest))});
    }
  }
  return y;
}

/// Tokens of [2, T] for a vocabulary, each several times.
inline std::int64_t token_at(std::int64_t i, std::int64_t vocabulary) {
  return i * i % vocabulary;
}

inline Tensor tokens_for(const Tensor& weight, std::int64_t length) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < 2 * length; ++i) tokens.push_back(token_at(i, weight.size(0)));
  return from_vector(tokens, {2, length}, weight.device());
}

inline Sums embedded(const Array& weight, const Array* positions, std::int64_t length) {
  const std::int64_t columns = weight.shape[1];
  Sums y;
  for (std::int64_t i = 0; i < 2 * length; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      Sum sum;
      sum += weight.at(token_at(i, weight.shape[0]), j);
      if (positions != nullptr) sum += positions->at(1 + i % length, j);
      y.push_back(sum);
    }
  }
  return y;
}

/// The first `heads` heads of 6 elements, rotated from position 3 on with base 100.
inline Sums turned(const Array& x, std::int64_t heads) {
  const std::int64_t length = x.shape[1], columns = x.shape[2];
  Sums y(x.values.size());
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::int64_t column = i % columns, element = column % 6;
    if (column >= 6 * heads) {
      y[i] += x[i];
      continue;
    }
    const auto frequency = 1 / static_cast<float>(std::pow(100.0, static_cast<double>(element % 3) / 3));
    const double angle = static_cast<float>(3 + i / columns % length) * frequency;  // in f32, by definition
    y[i] += std::cos(angle) * x[i];
    y[i] += element < 3 ? -std::sin(angle) * x[i + 3] : std::sin(angle) * x[i - 3];
  }
  return y;
}

}  // namespace ringtape::test
