// Details that the table of operations in ops_test.cpp does not cover.
#include "autograd/ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "autograd/gradcheck.h"
#include "autograd/invalid_index.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/half.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using Inputs = const std::vector<Tensor>&;

}  // namespace

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
  CHECK_THROWS_WITH(matmul(a, a), ContainsSubstring("the inner sizes of f32[2, 3]"));
  CHECK_THROWS_WITH(matmul(a, zeros({3})),
                    ContainsSubstring("matmul: expected two matrices") && ContainsSubstring("f32[3]"));
  CHECK_THROWS_WITH(linear(a, b), ContainsSubstring("linear: input f32[2, 3] on cpu") &&
                                      ContainsSubstring("weight f32[2, 2]"));
  CHECK_THROWS_WITH(linear(a, a, tensor_of({1}, {1})),
                    ContainsSubstring("linear: bias f32[1]") && ContainsSubstring("expected shape [2]"));
  CHECK_THROWS_WITH(sum(a, 2), ContainsSubstring("sum: dimension 2") && ContainsSubstring("[2, 3]"));
  CHECK_THROWS_WITH(mean(a, -3), ContainsSubstring("mean: dimension -3") && ContainsSubstring("[2, 3]"));
  CHECK_THROWS_WITH(view(Tensor(), {2}), ContainsSubstring("view: expected a tensor, found an undefined"));
  CHECK_THROWS_WITH(to(Tensor(), DType::f32), ContainsSubstring("to: expected a tensor, found an undefined"));
  CHECK_THROWS_WITH(to(Tensor(), Device{}), ContainsSubstring("to: expected a tensor, found an undefined"));
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
  CHECK_THROWS_WITH(arange(0, 1, -1), ContainsSubstring("do not lead from 0 to 1"));
  CHECK_THROWS_WITH(arange(0, -0.5), ContainsSubstring("do not lead from 0 to -0.5"));
  CHECK_THROWS_WITH(rand({2}, DType::i64), ContainsSubstring("rand") && ContainsSubstring("i64"));
  CHECK_THROWS_WITH(randn({2}, DType::u8), ContainsSubstring("randn") && ContainsSubstring("u8"));
  for (const double std : {-1.0, -std::nan("")}) {
    CHECK_THROWS_WITH(
        randn({2}, DType::f32, Device{}, 0, std),
        ContainsSubstring(fmt::format("deviation of at least 0, found {}", std < 0 ? "-1" : "nan")));
  }
  CHECK_THROWS_WITH(rand({2}, DType::f32, Device{}, 5, 1), ContainsSubstring("low <= high"));
  CHECK_THROWS_WITH(rand({2}, DType::f32, Device{}, -3e38, 3e38), ContainsSubstring("difference within f32"));
  CHECK(rand({2}, DType::f32, Device{}, 5, 5).to_doubles() == std::vector<double>{5, 5});
  CHECK_THROWS_WITH(make_rotary_table(4, 2, 10000, DType::bf16, Device{}),
                    ContainsSubstring("rotary: expected a table of f32") && ContainsSubstring("bf16"));
  const Tensor sequences = zeros({2, 2, 2});
  CHECK_THROWS_WITH(dropout_of_tokens(sequences, 0.5, {{0, 2}}, 3),
                    ContainsSubstring("sequences of 3 tokens of 2 elements: expected a multiple of 4"));
  CHECK_THROWS_WITH(dropout_of_tokens(sequences, 0.5, {{4, 2}}, 4),
                    ContainsSubstring("2 tokens from token 4 on, expected tokens of a sequence of 4"));
  const Tensor qkv = zeros({1, 2, 12});
  CHECK_THROWS_WITH(causal_self_attention(qkv, 2, 2, {.all_heads = 2, .first_head = 1}),
                    ContainsSubstring("2 heads from head 1 on, expected heads of all 2"));
  CHECK_THROWS_WITH(causal_self_attention(qkv, 2, 2, {.first_head = 1}),
                    ContainsSubstring("2 heads from head 1 on, expected heads of all 0"));
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

TEST_CASE("a norm of more rows than its backward has blocks", "[ops]") {
  constexpr std::int64_t kRows = 1500, kColumns = 4;
  const Tensor x = rand({kRows, kColumns}, DType::f64), dy = rand({kRows, kColumns}, DType::f64);
  const Tensor weight = ones({kColumns}, DType::f64).set_requires_grad(true);
  const Tensor bias = zeros({kColumns}, DType::f64).set_requires_grad(true);
  sum(multiply(layer_norm(x, weight, bias), dy)).backward();
  const std::vector<double> values = x.to_doubles(), upstream = dy.to_doubles();
  std::vector<double> of_weight(kColumns), of_bias(kColumns);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const double* const of_row = &values[static_cast<std::size_t>(row * kColumns)];
    double mean = 0, variance = 0;
    for (int i = 0; i < kColumns; ++i) mean += of_row[i] / kColumns;
    for (int i = 0; i < kColumns; ++i) variance += (of_row[i] - mean) * (of_row[i] - mean) / kColumns;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const double up = upstream[static_cast<std::size_t>(row * kColumns) + i];
      of_weight[i] += up * (of_row[i] - mean) / std::sqrt(variance + 1e-5);
      of_bias[i] += up;
    }
  }
  for (std::size_t i = 0; i < kColumns; ++i) {
    CHECK(is_close(weight.grad().to_doubles()[i], of_weight[i], 1e-10));
    CHECK(is_close(bias.grad().to_doubles()[i], of_bias[i], 1e-10));
  }
}

TEST_CASE("an invalid target is an error that names the row, once", "[ops]") {
  const Tensor x = tensor_of(std::vector<double>(12, 1.0), {4, 3});
  for (const double bad : {3.0, -1.0, 1e12}) {
    CHECK_THROWS_WITH(cross_entropy(x, tensor_of({0, 1, bad, 2}, {4}, DType::i64)),
                      ContainsSubstring("target of row 2"));
    check_indices(Device{});  // the report is gone
  }
  CHECK(is_close(cross_entropy(x, tensor_of({0, 1, 2, 2}, {4}, DType::i32)).item(), std::log(3.0), 1e-6));
}

TEST_CASE("a check reports one kind of invalid index and forgets all", "[ops]") {
  *invalid_index_flag("first: row {}", Device{}) = 3;
  *invalid_index_flag("second: row {}", Device{}) = 5;
  CHECK_THROWS_WITH(check_indices(Device{}), ContainsSubstring("first: row 2"));
  CHECK_NOTHROW(check_indices(Device{}));
}

TEST_CASE("count_correct counts rows whose first largest logit is at the target", "[ops]") {
  const Tensor x = tensor_of({1, 2, 3, /**/ 5, 5, 1, /**/ 0, 9, 0, /**/ NAN, 1, 2, /**/ 7, 1, 1}, {5, 3});
  CHECK(count_correct(x, tensor_of({2, 0, 1, 2, 1}, {5}, DType::i64)).item() == 3);
  CHECK(count_correct(x, tensor_of({2, 1, -100, 1, 0}, {5}, DType::i64)).item() == 2);
  CHECK(count_correct(zeros({0, 3}), tensor_of({}, {0}, DType::i64)).item() == 0);
  CHECK_THROWS_WITH(count_correct(zeros({2, 3}), zeros({3}, DType::i64)),
                    ContainsSubstring("count_correct: logits f32[2, 3] on cpu do not fit targets i64[3]"));
}

TEST_CASE("cross_entropy_and_correct is cross_entropy and count_correct", "[ops]") {
  for (const std::int64_t classes : {7, 40}) {  // a thread, or a block, for each row
    std::vector<double> values = random_doubles(100 * classes, 3);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::round(2 * values[i]);  // many equal ones
    std::vector<double> with_nan = values;
    with_nan[5] = NAN;
    std::vector<double> labels;
    for (int row = 0; row < 100; ++row) labels.push_back(row % 9 == 4 ? -100 : row * 5 % 7);
    const Tensor targets = tensor_of(labels, {100}, DType::i64);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const Tensor finite = tensor_of(values, {100, classes}, dtype);
      const LossAndCorrect of_finite = cross_entropy_and_correct(finite, targets);
      CHECK(of_finite.loss.item() == cross_entropy(finite, targets).item());
      CHECK(of_finite.correct.item() == count_correct(finite, targets).item());
      const auto gradient = [&](const auto& loss_of) {
        const Tensor x = to(finite, dtype == DType::f64 ? DType::f64 : DType::f32).set_requires_grad(true);
        loss_of(scale(x, 1)).backward();
        return x.grad().to_doubles();
      };
      CHECK(gradient([&](const Tensor& x) { return cross_entropy_and_correct(x, targets).loss; }) ==
            gradient([&](const Tensor& x) { return cross_entropy(x, targets); }));

      const Tensor logits = tensor_of(with_nan, {100, classes}, dtype);
      const double count = count_correct(logits, targets).item();
      CHECK(count > 0);
      CHECK(count < 89);
      const LossAndCorrect found = cross_entropy_and_correct(logits, targets);
      CHECK(found.correct.dtype() == DType::f32);
      CHECK(found.correct.item() == count);
      const Tensor x = to(logits, dtype == DType::f64 ? DType::f64 : DType::f32).set_requires_grad(true);
      const LossAndCorrect owned = cross_entropy_and_correct(scale(x, 1), targets);  // and the gradient
      CHECK(owned.correct.item() == count);
      owned.loss.backward();
    }
  }
}

TEST_CASE("cross_entropy keeps a NaN, whatever its bits, and refuses logits without classes", "[ops]") {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0xffffffffu}) {
    Tensor logits = zeros({2, 40});
    logits.data<float>()[41] = on_cpu::float_from_bits(bits);
    CHECK(std::isnan(cross_entropy(logits, from_vector<std::int64_t>({0, 0}, {2})).item()));
  }
  CHECK_THROWS_WITH(cross_entropy(empty({3, 0}), zeros({3}, DType::i64)), ContainsSubstring("no classes"));
}

TEST_CASE("cross_entropy accepts large logits, and gives NaN beyond a kernel's limit", "[ops]") {
  const float most = std::numeric_limits<float>::max();
  const float limit = 0x1p30f;  // of the GPU's kernel for many classes, which check builds run
#ifdef RINGTAPE_CHECK
  const std::int64_t max_without_limit = 32;
#else
  const std::int64_t max_without_limit = 4096;
#endif
  for (const std::int64_t classes : {4, 64, 4096}) {
    for (const float same : {-most, -limit, 0.0f, limit, most}) {
      INFO(classes << " classes of " << same);
      const Tensor x = full({1, classes}, same).set_requires_grad(true);
      const Tensor loss = cross_entropy(x, from_vector<std::int64_t>({1}, {1}));
      loss.backward();
      if (classes > max_without_limit && std::abs(same) > limit) {
        CHECK(std::isnan(loss.item()));
        CHECK(std::isnan(x.grad().data<float>()[0]));
        continue;
      }
      CHECK(loss.item() == Approx(std::log(static_cast<double>(classes))));
      CHECK(x.grad().data<float>()[0] == Approx(1 / static_cast<double>(classes)));
      CHECK(x.grad().data<float>()[1] == Approx(1 / static_cast<double>(classes) - 1));
    }
    // The largest logit comes last and takes all of the probability.
    for (const auto& [low, high] :
         {std::pair{-most, -limit}, {-most, limit}, {0.0f, limit}, {-limit, -limit + 64}}) {
      Tensor x = full({1, classes}, low);
      x.data<float>()[classes - 1] = high;
      x.set_requires_grad(true);
      const Tensor loss = cross_entropy(x, from_vector<std::int64_t>({classes - 1}, {1}));
      CHECK(loss.item() == 0);
      loss.backward();
      for (const std::int64_t j : {std::int64_t{0}, classes - 2, classes - 1}) {
        CHECK(x.grad().data<float>()[j] == Approx(0).margin(1e-6));
      }
    }
  }
}

TEST_CASE("cross_entropy of f64 logits is as exact as double with any divisor and smoothing", "[ops]") {
  const std::vector<double> logits = {0.3, -1.2, 2.1, 0.7, 0.1, -0.4};
  const std::vector<std::int64_t> targets = {2, 0};
  const double smoothing = 0.1, divisor = 7.0 / 3;
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    const double whole = reduction == Reduction::mean ? 2 * divisor : divisor;
    double loss = 0;
    std::vector<double> gradient;
    for (std::size_t row = 0; row < 2; ++row) {
      const double* x = &logits[3 * row];
      const double sum = std::exp(x[0]) + std::exp(x[1]) + std::exp(x[2]);
      for (std::size_t j = 0; j < 3; ++j) {
        const double weight =
            smoothing / 3 + (static_cast<std::int64_t>(j) == targets[row] ? 1 - smoothing : 0);
        loss -= weight * (x[j] - std::log(sum)) / whole;
        gradient.push_back((std::exp(x[j]) / sum - weight) / whole);
      }
    }
    const Tensor x = from_vector(logits, {2, 3}).set_requires_grad(true);
    const Tensor found =
        cross_entropy(x, from_vector(targets, {2}),
                      {.reduction = reduction, .label_smoothing = smoothing, .divisor = divisor});
    found.backward();
    CHECK(is_close(found.item(), loss, 1e-15));
    check_close(x.grad().to_doubles(), gradient, 1e-14);
  }
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
  CHECK(full({1}, 255, DType::u8).item() == 255);
  CHECK(full({1}, -2147483648.0, DType::i32).item() == -2147483648.0);
  CHECK_THROWS_WITH(full({1}, 256, DType::u8), "full: expected at least 0 and below 256 for u8, found 256");
  CHECK_THROWS_WITH(full({1}, NAN, DType::i32), ContainsSubstring("for i32, found nan"));
  CHECK_THROWS_WITH(full({1}, 1e19, DType::i64), ContainsSubstring("for i64, found 1e+19"));
  CHECK(arange(0, 256, 1, DType::u8).elements() == 256);
  CHECK_THROWS_WITH(arange(0, 257, 1, DType::u8), ContainsSubstring("arange: expected at least 0"));
  CHECK_THROWS_WITH(arange(-1, 5, 1, DType::u8), ContainsSubstring("for u8, found -1"));
}

GPU_TEST_CASE("a gradient goes back to the device that its tensor came from", "[ops]") {
  const Tensor x = tensor_of({1, 2, 3}, {3}).set_requires_grad(true);
  sum(scale(to(x, Device::parse("cuda")), 2)).backward();
  CHECK(x.grad().device() == Device{});
  CHECK(x.grad().to_doubles() == std::vector<double>{2, 2, 2});
}

GPU_TEST_CASE("more rows than blocks have the values and gradients of fewer", "[ops]") {
  const Device gpu = Device::parse("cuda");
  constexpr std::int64_t kRows = 2 * 4100, kColumns = 8;  // a block for each of 8,192 rows
  const Tensor weight = to(rand({kColumns}), gpu), factors = to(rand({kRows, kColumns}), gpu);
  const std::vector<std::function<Tensor(const Tensor&)>> operations = {
      [&](const Tensor& x) { return layer_norm(x, weight, weight); },
      [&](const Tensor& x) { return rms_norm(x, weight); },
      [](const Tensor& x) { return softmax(x); },
      [](const Tensor& x) { return sum(x, 1); },
      [&](const Tensor& x) {
        return embedding(arange(0, static_cast<double>(x.size(0)), 1, DType::i64, gpu), x);
      },
  };
  const Tensor all = to(rand({kRows, kColumns}), gpu);
  const auto values_and_gradients = [&](const auto& operation, std::int64_t first, std::int64_t rows) {
    const Tensor x = all.alias({rows, kColumns}, first * kColumns).set_requires_grad(true);
    const Tensor y = operation(x);
    sum(multiply(y, factors.alias(y.shape(), first * (y.elements() / rows)))).backward();
    return std::pair(y.to_doubles(), x.grad().to_doubles());
  };
  for (std::size_t i = 0; i < operations.size(); ++i) {
    INFO("operation " << i);
    const auto [y, dx] = values_and_gradients(operations[i], 0, kRows);
    const auto [first_y, first_dx] = values_and_gradients(operations[i], 0, kRows / 2);
    const auto [last_y, last_dx] = values_and_gradients(operations[i], kRows / 2, kRows / 2);
    const auto is_joined = [](const auto& whole, const auto& first, const auto& last) {
      return std::equal(first.begin(), first.end(), whole.begin()) &&
             std::equal(last.rbegin(), last.rend(), whole.rbegin());
    };
    CHECK(is_joined(y, first_y, last_y));
    CHECK(first_y.size() + last_y.size() == y.size());
    CHECK(is_joined(dx, first_dx, last_dx));
  }
}

}  // namespace ringtape::test
