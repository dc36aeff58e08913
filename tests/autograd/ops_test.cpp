#include "autograd/ops.h"

#include <cmath>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "tests/autograd/operation_references.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"
#include "tests/support/gpu.h"
#include "tests/support/kernel_test.h"
#include "tests/support/tensors.h"

// One table of operations drives all tests of this file. A new operation is one row of it.
namespace ringtape::test {
namespace {

using Inputs = const std::vector<Tensor>&;
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
