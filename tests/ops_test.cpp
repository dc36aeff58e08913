#include "autograd/ops.h"

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/half.h"
#include "kernels/simt/executor.h"
#include "tests/catch.h"
#include "tests/gpu.h"
#include "tests/tensors.h"

// One table of operations drives all tests of this file. A new operation is one row of it.
namespace ringtape::test {
namespace {

/// One element of a result as the reference computes it: a sum in double, and the sum of the sizes of what
/// was added up, which says how far rounding may carry a result.
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

/// An input as the reference sees it.
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
};

// ---- what references share ----

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

const Operation kOperations[] = {
    {"add", two, [](Inputs x) { return add(x[0], x[1]); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return (Sum() += x[0][i]) += x[1][i]; }); }},
    {"multiply", two, [](Inputs x) { return multiply(x[0], x[1]); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return Sum() += x[0][i] * x[1][i]; }); }},
    {"scale", one, [](Inputs x) { return scale(x[0], -1.75); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return Sum() += -1.75 * x[0][i]; }); }},
    {"relu", one, [](Inputs x) { return relu(x[0]); },
     [](Arrays x) { return elementwise(x[0], [&](auto i) { return Sum() += std::max(x[0][i], 0.0); }); }},

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

/// Calls body for every operation and every set of its shapes.
template <class Body>
void for_each_case(const Body& body) {
  for (const Operation& operation : kOperations) {
    for (const std::int64_t n : {0, 1, 31, 33, 257}) {
      for (const Shapes& shapes : operation.shapes(n)) {
        std::string text;
        for (const Shape& shape : shapes) text.append(" ").append(to_string(shape));
        INFO(operation.name << text);
        body(operation, shapes);
      }
    }
  }
}

/// Odd multiples of 1/64 between -2 and 2: every dtype holds them, and they keep away from the kink of ReLU.
std::vector<double> exact_values(std::int64_t n, std::uint64_t seed) {
  std::vector<double> values = random_doubles(n, seed, -63, 63);
  for (double& value : values) value = (2 * std::floor(value) + 1) / 64;
  return values;
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
    // One rounding to the dtype of the result, and those of the sum: 16 units in f32, more only if very many
    // roundings go one way. In f64 those of the reference, which adds up to 1800 terms one by one, count for
    // more.
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

/// Gradients of the dtype against those of f64, which gradcheck() holds against finite differences.
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
      check_close(found[i], expected[i], relative, 32 * 0x1p-24 * largest_of(expected[i]) + smallest);
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
    // Compared as text, so that NaN (the mean of no element) equals NaN.
    const auto bits = [&] { return Catch::Detail::stringify(run(operation, shapes, DType::f32, Device{})); };
    const std::string forward = bits();
    simt::set_thread_order(simt::ThreadOrder::reversed);
    const std::string reversed = bits();
    simt::set_thread_order(simt::ThreadOrder::shuffled, 5);
    const std::string shuffled = bits();
    simt::set_thread_order(simt::ThreadOrder::forward);
    CHECK(reversed == forward);
    CHECK(shuffled == forward);
  });
}

GPU_TEST_CASE("operations: forward and gradients on the GPU agree with the reference and the CPU", "[ops]") {
  const Device gpu = Device::parse("cuda");
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check_forward(dtype, gpu);
    check_gradients(dtype, gpu);
  }
}

// ---- what the table cannot say ----

TEST_CASE("gradcheck finds a wrong gradient and names the element", "[ops]") {
  const auto almost_square = [](Inputs x) {
    Tensor y = multiply(x[0].detach(), x[0].detach());
    if (Tape::records({&x[0]})) {
      Tape::current().record("almost_square", {x[0]}, y, {}, [x = x[0].detach()](BackwardContext& context) {
        std::vector<double> gradient = multiply(scale(x, 2), context.grad_output()).to_vector<double>();
        gradient[3] *= 1.0001;
        context.add_grad(0, from_vector(gradient, x.shape()));
      });
    }
    return y;
  };
  const GradcheckResult result = gradcheck(almost_square, {tensor_of({1, 2, 3, 4, 5}, {5}, DType::f64)});
  CHECK_FALSE(result.passed());
  CHECK(result.elements == 5);
  CHECK(result.input == 0);
  CHECK(result.index == 3);
  // The weights of the sum are 1, 1.25, 1.5, 1.75: d(1.75 x^2)/dx = 14 at x = 4.
  CHECK(is_close(result.numeric, 14, 1e-8));
  CHECK(is_close(result.analytic, 14 * 1.0001, 1e-12));
  CHECK_THAT(to_string(result), ContainsSubstring("failed") && ContainsSubstring("input 0, index 3") &&
                                    ContainsSubstring("analytic 14.0014, numeric 14"));

  CHECK_THROWS_WITH(gradcheck(almost_square, {tensor_of({1}, {1})}), ContainsSubstring("must be f64"));
}

TEST_CASE("gradcheck takes a missing gradient for 0", "[ops]") {
  const auto first_alone = [](Inputs x) { return multiply(x[0], x[1].detach()); };
  const Tensor a = tensor_of({1, 2}, {2}, DType::f64);
  const GradcheckResult result = gradcheck(first_alone, {a, a});
  CHECK_FALSE(result.passed());
  CHECK(result.input == 1);
  CHECK(result.analytic == 0);
}

TEST_CASE("conversion between dtypes, and its gradient", "[ops]") {
  const std::vector<double> exact = exact_values(257, 1);
  const DType dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
  for (const DType from : dtypes) {
    for (const DType target : dtypes) {
      const Tensor x = tensor_of(exact, {257}, from);
      CHECK(to(x, target).dtype() == target);
      CHECK(to(x, target).to_doubles() == exact);
    }
  }
  CHECK(to(tensor_of({1.75, -1.75, 3e9}, {3}, DType::f64), DType::i64).to_doubles() ==
        std::vector<double>{1, -1, 3e9});
  CHECK(to(tensor_of({0, 255}, {2}, DType::u8), DType::f32).to_doubles() == std::vector<double>{0, 255});

  const Tensor x = tensor_of({1, 2}, {2}).set_requires_grad(true);
  Tape::current().backward(to(x, DType::bf16), tensor_of({3, 5}, {2}, DType::bf16));
  CHECK(x.grad().dtype() == DType::f32);
  CHECK(x.grad().to_doubles() == std::vector<double>{3, 5});
  CHECK(to(x, DType::f32).raw() == x.raw());
  CHECK_FALSE(to(x, DType::i64).requires_grad());
}

TEST_CASE("operations name the shapes, dtypes and dimensions that do not fit", "[ops]") {
  const Tensor a = tensor_of({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = tensor_of({1, 2, 3, 4}, {2, 2});
  const Tensor half = to(a, DType::f16);
  const Tensor labels = tensor_of({0, 1}, {2}, DType::i64);
  CHECK_THROWS_WITH(add(a, b), ContainsSubstring("add: expected equal shapes") &&
                                   ContainsSubstring("f32[2, 3] on cpu and f32[2, 2] on cpu"));
  CHECK_THROWS_WITH(multiply(a, half),
                    ContainsSubstring("multiply: expected one dtype") && ContainsSubstring("f16[2, 3]"));
  CHECK_THROWS_WITH(add(a, Tensor()), ContainsSubstring("add") && ContainsSubstring("an undefined tensor"));
  CHECK_THROWS_WITH(relu(labels),
                    ContainsSubstring("relu: expected a floating tensor") && ContainsSubstring("i64[2]"));
  CHECK_THROWS_WITH(relu(Tensor()), ContainsSubstring("relu") && ContainsSubstring("an undefined tensor"));
  CHECK_THROWS_WITH(matmul(a, a), ContainsSubstring("matmul: inner sizes") && ContainsSubstring("f32[2, 3]"));
  CHECK_THROWS_WITH(linear(a, b), ContainsSubstring("linear: input f32[2, 3] on cpu") &&
                                      ContainsSubstring("weight f32[2, 2]"));
  CHECK_THROWS_WITH(linear(a, a, tensor_of({1}, {1})),
                    ContainsSubstring("linear: bias f32[1]") && ContainsSubstring("expected shape [2]"));
  CHECK_THROWS_WITH(sum(a, 2), ContainsSubstring("sum: dimension 2") && ContainsSubstring("[2, 3]"));
  CHECK_THROWS_WITH(mean(a, -3), ContainsSubstring("mean: dimension -3") && ContainsSubstring("[2, 3]"));
  CHECK_THROWS_WITH(view(a, {4, -1}), ContainsSubstring("view") && ContainsSubstring("has 6 elements"));
  CHECK_THROWS_WITH(view(a, {-1, -1}),
                    ContainsSubstring("view") && ContainsSubstring("more than one size is -1 in [-1, -1]"));
  CHECK_THROWS_WITH(view(zeros({0}), {0, -1}),
                    ContainsSubstring("view") && ContainsSubstring("-1 in [0, -1] could be any"));
  CHECK_THROWS_WITH(view(a, {std::int64_t{1} << 40, std::int64_t{1} << 40}), ContainsSubstring("63 bits"));
  CHECK_THROWS_WITH(cat({a, b}, 0),
                    ContainsSubstring("cat") && ContainsSubstring("differ in more than dimension 0"));
  CHECK_THROWS_WITH(cat({}), ContainsSubstring("at least one tensor"));
  CHECK_THROWS_WITH(stack({a, b}),
                    ContainsSubstring("stack: expected equal shapes") && ContainsSubstring("f32[2, 2]"));
  CHECK_THROWS_WITH(mse_loss(a, b), ContainsSubstring("mse_loss"));
  CHECK_THROWS_WITH(cross_entropy(a, tensor_of({0}, {1}, DType::i64)),
                    ContainsSubstring("cross_entropy") && ContainsSubstring("do not fit targets"));
  CHECK_THROWS_WITH(cross_entropy(a, tensor_of({0, 1}, {2})),
                    ContainsSubstring("targets must be i64 or i32") && ContainsSubstring("f32[2]"));
  CHECK_THROWS_WITH(cross_entropy(a, labels, {.label_smoothing = 1.5}),
                    ContainsSubstring("label_smoothing") && ContainsSubstring("1.5"));
  CHECK_THROWS_WITH(arange(0, 1, 0), ContainsSubstring("arange"));
  CHECK_THROWS_WITH(arange(0, 1, -1), ContainsSubstring("no way from 0 to 1"));
  CHECK_THROWS_WITH(rand({2}, DType::i64), ContainsSubstring("rand") && ContainsSubstring("i64"));
  CHECK_THROWS_WITH(randn({2}, DType::u8), ContainsSubstring("randn") && ContainsSubstring("u8"));
}

TEST_CASE("an invalid target is an error that names the row, once", "[ops]") {
  const Tensor x = tensor_of(std::vector<double>(12, 1.0), {4, 3});
  for (const double bad : {3.0, -1.0, 1e12}) {
    CHECK_THROWS_WITH(cross_entropy(x, tensor_of({0, 1, bad, 2}, {4}, DType::i64)),
                      ContainsSubstring("target of row 2"));
    check_targets(Device{});  // the report is gone
  }
  CHECK(is_close(cross_entropy(x, tensor_of({0, 1, 2, 2}, {4}, DType::i32)).item(), std::log(3.0), 1e-6));
}

TEST_CASE("count_correct counts rows whose first largest logit is at the target", "[ops]") {
  const Tensor x = tensor_of({1, 2, 3, /**/ 5, 5, 1, /**/ 0, 9, 0, /**/ NAN, 1, 2, /**/ 7, 1, 1}, {5, 3});
  CHECK(count_correct(x, tensor_of({2, 0, 1, 2, 1}, {5}, DType::i64)).item() == 3);
  CHECK(count_correct(x, tensor_of({2, 1, -100, 1, 0}, {5}, DType::i64)).item() == 2);
  CHECK(count_correct(zeros({0, 3}), tensor_of({}, {0}, DType::i64)).item() == 0);
}

TEST_CASE("cross_entropy keeps a NaN, whatever its bits, and takes the lowest finite logits", "[ops]") {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0xffffffffu}) {
    Tensor logits = zeros({2, 40});
    logits.data<float>()[41] = on_cpu::float_from_bits(bits);
    CHECK(std::isnan(cross_entropy(logits, from_vector<std::int64_t>({0, 0}, {2})).item()));
  }
  for (const std::int64_t classes : {4, 64}) {
    const Tensor masked = full({1, classes}, -std::numeric_limits<float>::max());
    const double loss = cross_entropy(masked, from_vector<std::int64_t>({1}, {1})).item();
    CHECK(loss == Approx(std::log(static_cast<double>(classes))));
  }
  CHECK_THROWS_WITH(cross_entropy(empty({3, 0}), zeros({3}, DType::i64)), ContainsSubstring("no classes"));
}

TEST_CASE("a loss scale reaches f16 gradients before they are rounded", "[ops]") {
  const std::int64_t rows = 4096, classes = 10;  // gradients of 1e-5 and less: lost in f16 without the scale
  Tensor x = zeros({rows, classes});
  x.set_requires_grad(true);
  const Tensor targets = zeros({rows}, DType::i64);
  scale(cross_entropy(to(x, DType::f16), targets), 65536).backward();
  const double expected = 65536 * (0.1 - 1) / static_cast<double>(rows);
  CHECK(x.grad().to_doubles()[0] == Approx(expected).epsilon(1e-3));
}

TEST_CASE("cat of long rows, and of a single one", "[ops]") {
  const std::int64_t n = 70001;  // more than one block takes
  const Tensor a = rand({n}), b = rand({3});
  const auto joined = cat({a, b, a}).to_doubles();
  auto expected = a.to_doubles();
  for (const Tensor& part : {b, a}) {
    const auto values = part.to_doubles();
    expected.insert(expected.end(), values.begin(), values.end());
  }
  CHECK(joined == expected);
}

TEST_CASE("arange, full, zeros and ones", "[ops]") {
  CHECK(arange(0, 5).to_doubles() == std::vector<double>{0, 1, 2, 3, 4});
  CHECK(arange(1, 2, 0.25).to_doubles() == std::vector<double>{1, 1.25, 1.5, 1.75});
  CHECK(arange(3, -1, -2, DType::i64).to_doubles() == std::vector<double>{3, 1});
  CHECK(arange(2, 2).elements() == 0);
  CHECK(full({2, 2}, 1.5, DType::bf16).to_doubles() == std::vector<double>(4, 1.5));
  CHECK(zeros({3}, DType::i32).to_doubles() == std::vector<double>(3, 0.0));
  CHECK(ones({3}, DType::u8).to_doubles() == std::vector<double>(3, 1.0));
  CHECK(ones({}).item() == 1);
}

GPU_TEST_CASE("a gradient goes back to the device that its tensor came from", "[ops]") {
  const Tensor x = tensor_of({1, 2, 3}, {3}).set_requires_grad(true);
  sum(scale(to(x, Device::parse("cuda")), 2)).backward();
  CHECK(x.grad().device() == Device{});
  CHECK(x.grad().to_doubles() == std::vector<double>{2, 2, 2});
}

}  // namespace
}  // namespace ringtape::test
