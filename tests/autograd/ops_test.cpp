#include "autograd/ops.h"

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/half.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/gpu.h"
#include "tests/support/kernel_test.h"
#include "tests/support/tensors.h"

// One table of operations drives all tests of this file. A new operation is one row of it.
namespace ringtape::test {
namespace {

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
Sum operator*(double factor, const Sum& sum) {
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

using Inputs = const std::vector<Tensor>&;
using Arrays = const std::vector<Array>&;
using Shapes = std::vector<Shape>;

struct Operation {
  const char* name;
  /// Sets of input shapes in which `n` is one size: it runs through 0, 1, 31, 33 and 257.
  std::vector<Shapes> (*shapes)(std::int64_t n);
  Tensor (*run)(Inputs inputs);
  Sums (*reference)(Arrays inputs);
  /// In 16 bits: roundings of a saved result in a gradient whose terms cancel, relative to the largest.
  double roundings_of_largest = 0;
};

// ---- helpers of references ----

Sums products(const Array& a, bool transpose_a, const Array& b, bool transpose_b) {
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

Sums sums_over(const Array& x, int dim, bool mean) {
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

Sums total(const Array& x, bool mean) {
  Sum sum;
  for (double value : x.values) sum += value;
  return {(mean ? 1.0 / static_cast<double>(x.elements()) : 1.0) * sum};
}

template <class Function>
Sums elementwise(const Array& x, Function function) {
  Sums y(x.values.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = function(static_cast<std::int64_t>(i));
  return y;
}

Sums squared_errors(const Array& a, const Array& b, bool mean) {
  Sum sum;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return {(mean ? 1.0 / static_cast<double>(a.elements()) : 1.0) * sum};
}

/// Target of a row in the cross-entropy tests; every fourth row is ignored.
std::int64_t target_of_row(std::int64_t row, std::int64_t classes) {
  return row % 4 == 3 ? -100 : row * 7 % classes;
}

Tensor targets_for(const Tensor& logits) {
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < logits.size(0); ++row)
    targets.push_back(target_of_row(row, logits.size(1)));
  return from_vector(targets, {logits.size(0)}, logits.device());
}

Sums cross_entropy_loss(const Array& x, bool mean, double smoothing) {
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

Sums concatenated(Arrays inputs, int dim) {  // of matrices
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
Sums normalised(const Array& x, const Array& weight, const Array* bias, bool centred) {
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

Array sum_of(const Array& a, const Array& b) {
  Array sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += b.values[i];
  return sum;
}

Sums softmaxed(const Array& x) {
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
std::int64_t token_at(std::int64_t i, std::int64_t vocabulary) {
  return i * i % vocabulary;
}

Tensor tokens_for(const Tensor& weight, std::int64_t length) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < 2 * length; ++i) tokens.push_back(token_at(i, weight.size(0)));
  return from_vector(tokens, {2, length}, weight.device());
}

Sums embedded(const Array& weight, const Array* positions, std::int64_t length) {
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
Sums turned(const Array& x, std::int64_t heads) {
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

// ---- shapes that rows share ----

std::vector<Shapes> one(std::int64_t n) {
  return {{{n}}, {{3, n}}};
}
std::vector<Shapes> two(std::int64_t n) {
  return {{{n}, {n}}, {{3, n}, {3, n}}};
}
std::vector<Shapes> cube(std::int64_t n) {
  return {{{n, 3, 2}}, {{3, n, 2}}, {{2, 3, n}}};
}
std::vector<Shapes> logits(std::int64_t n) {
  return {{{n, 5}}, {{6, std::max<std::int64_t>(n, 2)}}};
}
/// Rows of a few columns, and a few rows.
std::vector<Shapes> rows(std::int64_t n) {
  return {{{n, 5}}, {{6, std::max<std::int64_t>(n, 1)}}};
}
/// Inputs of equal shapes, and parameters for their columns: at least 5, as a norm of one or two values
/// hardly changes with them, so that the terms of its gradient cancel.
template <int kParameters, int kInputs = 1>
std::vector<Shapes> rows_with(std::int64_t n) {
  std::vector<Shapes> result;
  for (const Shapes& input : std::vector<Shapes>{{{n, 5}}, {{6, std::max<std::int64_t>(n, 5)}}}) {
    Shapes shapes(kInputs, input[0]);
    shapes.insert(shapes.end(), kParameters, Shape{input[0][1]});
    result.push_back(shapes);
  }
  return result;
}

const Operation kOperations[] = {
    {"add", two, [](Inputs x) { return add(x[0], x[1]); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return (Sum() += x[0][i]) += x[1][i]; }); }},
    {"multiply", two, [](Inputs x) { return multiply(x[0], x[1]); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return Sum() += x[0][i] * x[1][i]; }); }},
    {"scale", one, [](Inputs x) { return scale(x[0], -1.75); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return Sum() += -1.75 * x[0][i]; }); }},
    {"exp", one, [](Inputs x) { return exp(x[0]); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return Sum() += std::exp(x[0][i]); }); }},
    {"relu", one, [](Inputs x) { return relu(x[0]); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return Sum() += std::max(x[0][i], 0.0); }); }},
    {"gelu", one, [](Inputs x) { return gelu(x[0]); },
     [](Arrays x) {
       return elementwise(
           x[0], [&](auto i) { return Sum() += x[0][i] / 2 * std::erfc(-x[0][i] / std::sqrt(2.0)); });
     }},
    {"gelu_tanh", one, [](Inputs x) { return gelu_tanh(x[0]); },
     [](Arrays x) {
       return elementwise(x[0], [&](auto i) {
         const double v = x[0][i];
         const double u = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
         return Sum() += v / (1 + std::exp(-2 * u));
       });
     }},
    {"silu", one, [](Inputs x) { return silu(x[0]); },
     [](Arrays x) {
       return elementwise(x[0], [&](auto i) { return Sum() += x[0][i] / (1 + std::exp(-x[0][i])); });
     }},
    {"swiglu", two, [](Inputs x) { return swiglu(x[0], x[1]); },
     [](Arrays x) {
       return elementwise(x[0],
                          [&](auto i) { return Sum() += x[0][i] / (1 + std::exp(-x[0][i])) * x[1][i]; });
     }},
    {"dropout", one,
     [](Inputs x) {
       manual_seed(7);
       return dropout(x[0], 0.25);
     },
     [](Arrays x) {
       manual_seed(7);
       const std::vector<double> drawn = rand({x[0].elements()}).to_doubles();
       return elementwise(x[0], [&](auto i) { return Sum() += drawn[i] < 0.25 ? 0 : x[0][i] / 0.75; });
     }},

    {"layer_norm", rows_with<2>, [](Inputs x) { return layer_norm(x[0], x[1], x[2]); },
     [](Arrays x) { return normalised(x[0], x[1], &x[2], true); }},
    {"layer_norm without bias", rows_with<1>, [](Inputs x) { return layer_norm(x[0], x[1]); },
     [](Arrays x) { return normalised(x[0], x[1], nullptr, true); }},
    {"rms_norm", rows_with<1>, [](Inputs x) { return rms_norm(x[0], x[1]); },
     [](Arrays x) { return normalised(x[0], x[1], nullptr, false); }},
    {"add_layer_norm, the normed", rows_with<2, 2>,
     [](Inputs x) { return add_layer_norm(x[0], x[1], x[2], x[3]).normed; },
     [](Arrays x) { return normalised(sum_of(x[0], x[1]), x[2], &x[3], true); }},
    {"add_rms_norm, both", rows_with<1, 2>,
     [](Inputs x) {
       const AddNorm both = add_rms_norm(x[0], x[1], x[2]);
       return cat({both.sum, both.normed});
     },
     [](Arrays x) {
       const Array sum = sum_of(x[0], x[1]);
       Sums y = elementwise(sum, [&](auto i) { return (Sum() += x[0][i]) += x[1][i]; });
       const Sums normed = normalised(sum, x[2], nullptr, false);
       y.insert(y.end(), normed.begin(), normed.end());
       return y;
     }},
    {"softmax", rows, [](Inputs x) { return softmax(x[0]); }, [](Arrays x) { return softmaxed(x[0]); }, 1},

    {"embedding",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{7, n}}, {{std::max<std::int64_t>(n, 1), 3}}};
     },
     [](Inputs x) { return embedding(tokens_for(x[0], 20), x[0]); },
     [](Arrays x) { return embedded(x[0], nullptr, 20); }},
    {"embedding with positions",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{7, 5}, {n + 2, 5}}, {{3, n}, {4, n}}};
     },
     [](Inputs x) { return embedding(tokens_for(x[0], x[1].size(0) - 2), x[0], x[1], 1); },
     [](Arrays x) { return embedded(x[0], &x[1], x[1].shape[0] - 2); }},
    {"rotary",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{2, n, 6}}, {{1, 3, 6 * n + 7}}};
     },
     [](Inputs x) {
       const DType dtype = x[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
       const RotaryTable table = make_rotary_table(x[0].size(1) + 3, 6, 100, dtype, x[0].device());
       return rotary(x[0], table, x[0].size(2) / 6, 3);
     },
     [](Arrays x) { return turned(x[0], x[0].shape[2] / 6); }},

    {"matmul",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{n, 5}, {5, 7}}, {{6, n}, {n, 7}}, {{6, 5}, {5, n}}};
     },
     [](Inputs x) { return matmul(x[0], x[1]); },
     [](Arrays x) { return products(x[0], false, x[1], false); }},
    {"matmul, a transposed",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{5, n}, {5, 7}}, {{n, 6}, {n, 7}}, {{5, 6}, {5, n}}};
     },
     [](Inputs x) { return matmul(x[0], x[1], true); },
     [](Arrays x) { return products(x[0], true, x[1], false); }},
    {"matmul, b transposed",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{n, 5}, {7, 5}}, {{6, n}, {7, n}}, {{6, 5}, {n, 5}}};
     },
     [](Inputs x) { return matmul(x[0], x[1], false, true); },
     [](Arrays x) { return products(x[0], false, x[1], true); }},
    {"matmul, both transposed",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{5, n}, {7, 5}}, {{n, 6}, {7, n}}, {{5, 6}, {n, 5}}};
     },
     [](Inputs x) { return matmul(x[0], x[1], true, true); },
     [](Arrays x) { return products(x[0], true, x[1], true); }},
    {"linear",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{n, 5}, {7, 5}, {7}}, {{6, n}, {7, n}, {7}}, {{6, 5}, {n, 5}, {n}}};
     },
     [](Inputs x) { return linear(x[0], x[1], x[2]); },
     [](Arrays x) {
       Sums y = products(x[0], false, x[1], true);
       for (std::size_t i = 0; i < y.size(); ++i)
         y[i] += x[2][static_cast<std::int64_t>(i) % x[2].elements()];
       return y;
     }},
    {"linear without bias",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{n, 5}, {7, 5}}, {{6, n}, {7, n}}};
     },
     [](Inputs x) { return linear(x[0], x[1]); }, [](Arrays x) { return products(x[0], false, x[1], true); }},
    {"linear_relu",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{n, 5}, {7, 5}, {7}}, {{6, n}, {7, n}, {7}}, {{6, 5}, {n, 5}, {n}}};
     },
     [](Inputs x) { return linear_relu(x[0], x[1], x[2]); },
     [](Arrays x) {
       Sums y = products(x[0], false, x[1], true);
       for (std::size_t i = 0; i < y.size(); ++i) {
         y[i] += x[2][static_cast<std::int64_t>(i) % x[2].elements()];
         y[i].value = std::max(y[i].value, 0.0);
       }
       return y;
     }},

    {"sum", one, [](Inputs x) { return sum(x[0]); }, [](Arrays x) { return total(x[0], false); }},
    {"mean", one, [](Inputs x) { return mean(x[0]); }, [](Arrays x) { return total(x[0], true); }},
    {"sum over the first dimension", cube, [](Inputs x) { return sum(x[0], 0); },
     [](Arrays x) { return sums_over(x[0], 0, false); }},
    {"sum over the middle dimension", cube, [](Inputs x) { return sum(x[0], 1, true); },
     [](Arrays x) { return sums_over(x[0], 1, false); }},
    {"sum over the last dimension", cube, [](Inputs x) { return sum(x[0], -1); },
     [](Arrays x) { return sums_over(x[0], 2, false); }},
    {"mean over the first dimension", cube, [](Inputs x) { return mean(x[0], 0); },
     [](Arrays x) { return sums_over(x[0], 0, true); }},
    {"mean over the last dimension", cube, [](Inputs x) { return mean(x[0], 2, true); },
     [](Arrays x) { return sums_over(x[0], 2, true); }},

    {"view",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{2, n, 3}}};
     },
     [](Inputs x) {
       return view(x[0], {3, 2, x[0].size(1)});
     },
     [](Arrays x) { return elementwise(x[0], [&](auto i) {
                      return Sum{x[0][i], 0};
                    }); }},
    {"cat, first dimension",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{n, 3}, {2, 3}}, {{2, n}, {1, n}, {3, n}}};
     },
     [](Inputs x) { return cat(x, 0); }, [](Arrays x) { return concatenated(x, 0); }},
    {"cat, last dimension",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{3, n}, {3, 2}}, {{n, 2}, {n, 1}, {n, 3}}};
     },
     [](Inputs x) { return cat(x, -1); }, [](Arrays x) { return concatenated(x, 1); }},
    {"stack",
     [](std::int64_t n) {
       return std::vector<Shapes>{{{1, n}, {1, n}}};
     },
     [](Inputs x) { return stack(x); }, [](Arrays x) { return concatenated(x, 0); }},

    {"mse_loss, mean", two, [](Inputs x) { return mse_loss(x[0], x[1]); },
     [](Arrays x) { return squared_errors(x[0], x[1], true); }},
    {"mse_loss, sum", two, [](Inputs x) { return mse_loss(x[0], x[1], Reduction::sum); },
     [](Arrays x) { return squared_errors(x[0], x[1], false); }},
    {"cross_entropy, mean", logits, [](Inputs x) { return cross_entropy(x[0], targets_for(x[0])); },
     [](Arrays x) { return cross_entropy_loss(x[0], true, 0); }},
    {"cross_entropy, sum, smoothed", logits,
     [](Inputs x) {
       return cross_entropy(x[0], targets_for(x[0]), {.reduction = Reduction::sum, .label_smoothing = 0.1});
     },
     [](Arrays x) { return cross_entropy_loss(x[0], false, 0.1); }},
    {"cross_entropy in the place of the logits", logits,
     [](Inputs x) {
       const Tensor targets = targets_for(x[0]);
       return cross_entropy(scale(x[0], 1), targets, {.label_smoothing = 0.2});
     },
     [](Arrays x) { return cross_entropy_loss(x[0], true, 0.2); }},
};

// ---- the tests ----

const std::vector<std::int64_t> kSizes =
    kCheckBuild ? std::vector<std::int64_t>{0, 1, 33} : std::vector<std::int64_t>{0, 1, 31, 33, 257};

/// Calls body for every operation and every set of its shapes.
template <class Body>
void for_each_case(const Body& body) {
  for (const Operation& operation : kOperations) {
    for (const std::int64_t n : kSizes) {
      for (const Shapes& shapes : operation.shapes(n)) {
        std::string text;
        for (const Shape& shape : shapes) text.append(" ").append(to_string(shape));
        INFO(operation.name << text);
        body(operation, shapes);
      }
    }
  }
}

std::vector<Array> arrays_of(const Shapes& shapes) {
  std::vector<Array> arrays;
  for (const Shape& shape : shapes) arrays.push_back({shape, exact_values(shape.elements(), arrays.size())});
  return arrays;
}

/// Inputs of this dtype that need a gradient. Leaves are f32 or f64, so 16-bit inputs are converted from f32
/// leaves.
struct Leaves {
  Leaves(const Shapes& shapes, DType dtype, Device device) {
    for (const Array& array : arrays_of(shapes)) {
      const DType leaf_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
      leaves.push_back(tensor_of(array.values, array.shape, leaf_dtype, device).set_requires_grad(true));
      inputs.push_back(to(leaves.back(), dtype));
    }
  }
  std::vector<Tensor> leaves, inputs;
};

/// The result, then the gradients of all inputs for a fixed gradient of the result.
std::vector<std::vector<double>> run(const Operation& operation, const Shapes& shapes, DType dtype,
                                     Device device) {
  const Leaves leaves(shapes, dtype, device);
  const Tensor y = operation.run(leaves.inputs);
  std::vector<std::vector<double>> results{y.to_doubles()};
  Tape::current().backward(y, tensor_of(exact_values(y.elements(), 99), y.shape(), y.dtype(), device));
  for (const Tensor& leaf : leaves.leaves) results.push_back(leaf.grad().to_doubles());
  return results;
}

void check_forward(DType dtype, Device device) {
  INFO(name_of(dtype) << " on " << to_string(device));
  for_each_case([&](const Operation& operation, const Shapes& shapes) {
    const NoGrad no_grad;
    const Tensor y = operation.run(Leaves(shapes, dtype, device).inputs);
    const std::vector<double> found = y.to_doubles();
    const Sums expected = operation.reference(arrays_of(shapes));
    REQUIRE(found.size() == expected.size());
    // One rounding to the dtype of the result, and the roundings of the sum: 16 units in f32, more only if
    // very many errors have one sign. In f64 the roundings of the reference, which adds up to 1800 terms one
    // by one, are larger.
    const double rounding_of_sum = dtype == DType::f64 ? 512 * 0x1p-53 : 16 * 0x1p-24;
    const auto allowed = [&](const Sum& sum) {
      return rounding_of(y.dtype()) * std::abs(sum.value) + rounding_of_sum * sum.size;
    };
    std::size_t i = 0;
    while (i < found.size() && is_close(found[i], expected[i].value, 0, allowed(expected[i]))) ++i;
    if (i == found.size()) {
      SUCCEED();
    } else {
      FAIL_CHECK("element " << i << ": found " << found[i] << ", expected " << expected[i].value << " within "
                            << allowed(expected[i]));
    }
  });
}

/// Gradients of the dtype against those of f64, which gradcheck() compares with finite differences.
void check_gradients(DType dtype, Device device) {
  INFO(name_of(dtype) << " on " << to_string(device));
  for_each_case([&](const Operation& operation, const Shapes& shapes) {
    const auto found = run(operation, shapes, dtype, device);
    const auto expected = run(operation, shapes, DType::f64, Device{});
    for (std::size_t i = 1; i < found.size(); ++i) {
      INFO("gradient of input " << i - 1);
      // 16 bits: rounded once as a result, and once more where an intermediate gradient is stored; below
      // 2^-14 the numbers of f16 lie 2^-24 apart.
      const double relative = dtype == DType::f32 ? 0 : 2 * rounding_of(dtype);
      const double smallest = dtype == DType::f16 ? 0x1p-24 : 0;
      const double cancelling = dtype == DType::f32 ? 0 : operation.roundings_of_largest * rounding_of(dtype);
      check_close(found[i], expected[i], relative,
                  (32 * 0x1p-24 + cancelling) * largest_of(expected[i]) + smallest);
    }
  });
}

TEST_CASE("operations: the forward agrees with the reference", "[ops]") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) check_forward(dtype, Device{});
}

TEST_CASE("operations: the gradient agrees with finite differences", "[ops]") {
  for_each_case([](const Operation& operation, const Shapes& shapes) {
    const Leaves leaves(shapes, DType::f64, Device{});
    GradcheckOptions options;
    for (const Tensor& input : leaves.inputs) options.every = std::max(options.every, input.elements() / 24);
    const GradcheckResult result = gradcheck(operation.run, leaves.inputs, options);
    INFO(to_string(result));
    CHECK(result.passed());
  });
}

TEST_CASE("operations: activations of very large values are x or 0, and their gradients 1 or 0", "[ops]") {
  using Activation = Tensor (*)(const Tensor&);
  const std::vector<float> sizes = {100, 1e12f, 1e15f, 1e19f, 3e19f, 3e38f};
  for (const Activation activation : {silu, gelu, gelu_tanh}) {
    for (const float sign : {-1.0f, 1.0f}) {
      std::vector<float> values;
      for (const float size : sizes) values.push_back(sign * size);
      const Tensor x = from_vector(values, {6}).set_requires_grad(true);
      const Tensor y = activation(x);
      sum(y).backward();
      CHECK(y.to_doubles() == (sign > 0 ? x.to_doubles() : std::vector<double>(6, 0)));
      CHECK(x.grad().to_doubles() == std::vector<double>(6, sign > 0 ? 1 : 0));
    }
  }
}

TEST_CASE("operations: gradients in f32, bf16 and f16 agree with those in f64", "[ops]") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) check_gradients(dtype, Device{});
}

TEST_CASE("operations: Ringtape's own GEMM gives the same gradients", "[ops]") {
  const GemmScope own(GemmBackend::own);
  for (const DType dtype : {DType::f32, DType::bf16}) check_gradients(dtype, Device{});
}

TEST_CASE("operations: results do not depend on the order of the threads", "[ops]") {
  const GemmScope own(GemmBackend::own);
  for_each_case([](const Operation& operation, const Shapes& shapes) {
    std::vector<std::vector<double>> forward;
    for_each_thread_order([&] {
      const auto found = run(operation, shapes, DType::f32, Device{});
      if (forward.empty()) forward = found;
      REQUIRE(found.size() == forward.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(worst_error(found[i], forward[i], 0) == 0);
    });
  });
}

GPU_TEST_CASE("operations: forward and gradients on the GPU agree with the reference and the CPU", "[ops]") {
  const Device gpu = Device::parse("cuda");
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check_forward(dtype, gpu);
    check_gradients(dtype, gpu);
  }
}

}  // namespace
}  // namespace ringtape::test
