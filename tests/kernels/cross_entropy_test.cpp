#include "kernels/cross_entropy.h"

#include <limits>

#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

template <class T>
using AccumulateOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// One problem and its result by the formula of cross_entropy.h, in double.
template <class T>
struct Case {
  std::int64_t rows;
  std::int64_t classes;
  std::vector<T> logits;
  std::vector<std::int64_t> targets;
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  bool mean = true;

  double divisor() const {
    return mean ? static_cast<double>(std::count_if(targets.begin(), targets.end(),
                                                    [this](std::int64_t t) { return t != ignore_index; }))
                : 1;
  }

  struct Expected {
    std::vector<double> row_loss, gradient;
    double loss = 0, correct = 0;
  };

  Expected expected() const {
    Expected e;
    const double n = divisor();
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t target = targets[static_cast<std::size_t>(r)];
      std::vector<long double> x;  // so that the reference's rounding is negligible in the f64 case
      for (std::int64_t j = 0; j < classes; ++j) {
        x.push_back(to_double(logits[static_cast<std::size_t>(r * classes + j)]));
      }
      const long double max = *std::max_element(x.begin(), x.end());
      long double sum = 0, smooth = 0;
      for (const long double value : x) sum += std::exp(value - max);
      for (const long double value : x) smooth += std::log(sum) - (value - max);
      const bool counts = target != ignore_index;
      long double loss = 0;
      if (counts) {
        loss = (1 - label_smoothing) * (std::log(sum) - (x[static_cast<std::size_t>(target)] - max));
        if (label_smoothing > 0) loss += label_smoothing / static_cast<double>(classes) * smooth;
      }
      if (counts && std::max_element(x.begin(), x.end()) - x.begin() == target) e.correct += 1;
      e.row_loss.push_back(static_cast<double>(loss));
      e.loss += e.row_loss.back();
      for (std::int64_t j = 0; j < classes; ++j) {
        const auto softmax = static_cast<double>(std::exp(x[static_cast<std::size_t>(j)] - max) / sum);
        const double wanted =
            (j == target ? 1 - label_smoothing : 0) + label_smoothing / static_cast<double>(classes);
        e.gradient.push_back(counts ? (softmax - wanted) / n : 0);
      }
    }
    e.loss /= n;
    return e;
  }
};

/// Random logits and targets; every fifth target is the ignored index.
template <class T>
Case<T> random_case(std::int64_t rows, std::int64_t classes, double low = -3, double high = 3) {
  Case<T> c{rows, classes, random_values<T>(rows * classes, 5, low, high), {}};
  for (std::int64_t r = 0; r < rows; ++r) c.targets.push_back(r % 5 == 3 ? -100 : r * 7 % classes);
  return c;
}

/// Runs all kernels on the case and compares with the expected results.
template <class T>
void check_case(const Case<T>& c, double relative, double absolute) {
  using A = AccumulateOf<T>;
  const typename Case<T>::Expected e = c.expected();
  on_every_device<T>([&](Device device, const Stream& stream) {
    const DeviceArray<std::int64_t> targets(device, c.targets);
    DeviceArray<T> logits(device, c.logits);
    DeviceArray<A> stats(device, 2 * c.rows), row_loss(device, c.rows), loss(device, 1), again(device, 1);
    DeviceArray<float> count(device, 1), correct(device, 1), correct_again(device, 1);
    DeviceArray<int> invalid(device, 1);
    count_targets(stream, DType::i64, targets.data(), c.rows, c.ignore_index, count.data());
    if (c.mean) CHECK(count.doubles() == std::vector<double>{c.divisor()});

    const CrossEntropyProblem problem{dtype_of<T>,       DType::i64,
                                      targets.data(),    c.rows,
                                      c.classes,         c.ignore_index,
                                      c.label_smoothing, c.mean ? count.data() : nullptr,
                                      invalid.data(),    1,
                                      correct.data()};
    cross_entropy_forward(stream, problem, logits.data(), stats.data(), row_loss.data(), loss.data());
    CHECK(correct.doubles() == std::vector<double>{e.correct});
    CHECK(worst_error(row_loss.doubles(), e.row_loss, relative, absolute) <= 1);
    CHECK(worst_error(loss.doubles(), {e.loss}, relative, absolute) <= 1);
    cross_entropy_forward(stream, problem, logits.data(), stats.data(), nullptr, again.data());
    CHECK(worst_error(again.doubles(), loss.doubles(), 0) == 0);  // the same bits

    // Gradients are at most 1 / divisor, so their errors are measured against that.
    const double one = 1 / std::max(c.divisor(), 1.0);
    const double rounded = rounding<T>() + relative;
    const DeviceArray<A> grad_loss(device, {A{1}}), half(device, {A{0.5}});
    DeviceArray<T> gradient(device, c.rows * c.classes, from_double<T>(9));
    cross_entropy_backward(stream, problem, logits.data(), stats.data(), grad_loss.data(), gradient.data(),
                           false);
    const double tiny = std::is_same_v<T, float16> ? 0x1p-25 : 0;  // half a unit of f16's subnormals
    CHECK(worst_error(gradient.doubles(), e.gradient, rounded, absolute * one + tiny) <= 1);

    DeviceArray<T> of_one(device, c.rows * c.classes, from_double<T>(9));
    cross_entropy_backward(stream, problem, logits.data(), stats.data(), nullptr, of_one.data(), false);
    CHECK(of_one.doubles() == gradient.doubles());

    // A second gradient of half the size, added.
    std::vector<double> sum = gradient.doubles();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += 0.5 * e.gradient[i];
    cross_entropy_backward(stream, problem, logits.data(), stats.data(), half.data(), gradient.data(), true);
    CHECK(worst_error(gradient.doubles(), sum, 2 * rounded, absolute * one + 2 * tiny) <= 1);

    CrossEntropyProblem fused = problem;
    fused.correct = correct_again.data();
    cross_entropy_fused(stream, fused, logits.data(), again.data());
    CHECK(correct_again.doubles() == std::vector<double>{e.correct});
    CHECK(worst_error(again.doubles(), {e.loss}, relative, absolute) <= 1);
    CHECK(worst_error(logits.doubles(), e.gradient, rounded, absolute * one + tiny) <= 1);
    CHECK(invalid.host()[0] == 0);
  });
}

}  // namespace

TEMPLATE_TEST_CASE("cross-entropy: loss, rows and gradients for every kind of row", "[cross_entropy]", float,
                   double, bfloat16, float16) {
  using T = TestType;
  const double relative = 16 * rounding<AccumulateOf<T>>();
  for (const std::int64_t classes : {1, 2, 10, 31, 32, 33, 100, 257, 1000, 4099}) {
    INFO("classes " << classes);
    Case<T> c = random_case<T>(7, classes);
    check_case(c, relative, relative);
    c.mean = false;
    c.label_smoothing = 0.1;
    check_case(c, relative, relative);
  }
}

// On a GPU a block has 48 KiB without an opt-in, of which its reductions take some words: a row of 12,217 to
// 12,284 f32 logits fits alone, but not together with them.
TEST_CASE("cross-entropy: rows about as long as a GPU's shared memory", "[cross_entropy]") {
  for (const std::int64_t classes : {12216, 12217, 12250, 12284, 12285}) {
    INFO("classes " << classes);
    check_case(random_case<float>(3, classes), 1e-6, 1e-6);
  }
}

TEST_CASE("cross-entropy: 50,304 and 50,257 classes", "[cross_entropy]") {
  // The second does not keep rows aligned to 16 bytes.
  for (const std::int64_t classes : {50304, 50257}) {
    Case<float> c = random_case<float>(3, classes);
    check_case(c, 1e-6, 1e-6);
    c.label_smoothing = 0.2;
    check_case(c, 1e-6, 1e-6);
    check_case(random_case<bfloat16>(3, classes), 1e-6, 1e-6);
  }
}

TEST_CASE("cross-entropy: more rows than one grid of blocks takes at once", "[cross_entropy]") {
  Case<float> narrow = random_case<float>(2048 * 128 + 77, 2);
  check_case(narrow, 1e-6, 1e-6);
  Case<float> wide = random_case<float>(2048 + 5, 40);
  check_case(wide, 1e-6, 1e-6);
}

TEST_CASE("cross-entropy: 10 classes, in whole groups of rows and a part of one", "[cross_entropy]") {
  for (const std::int64_t rows : {128, 3 * 128 + 77}) {
    INFO("rows " << rows);
    check_case(random_case<float>(rows, 10), 1e-6, 1e-6);
    check_case(random_case<bfloat16>(rows, 10), 1e-6, 1e-6);
  }
}

TEST_CASE("cross-entropy: 10 classes of logits that are not at a multiple of 16 bytes", "[cross_entropy]") {
  Case<float> c = random_case<float>(200, 10);
  c.mean = false;
  const typename Case<float>::Expected e = c.expected();
  std::vector<float> shifted = {5};
  shifted.insert(shifted.end(), c.logits.begin(), c.logits.end());
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<std::int64_t> targets(device, c.targets);
    DeviceArray<float> logits(device, shifted), loss(device, 1);
    DeviceArray<int> invalid(device, 1);
    const CrossEntropyProblem problem{DType::f32,     DType::i64, targets.data(), c.rows,        c.classes,
                                      c.ignore_index, 0,          nullptr,        invalid.data()};
    cross_entropy_fused(stream, problem, logits.data() + 1, loss.data());
    const std::vector<double> found = logits.doubles();
    CHECK(found[0] == 5);
    CHECK(worst_error({found.begin() + 1, found.end()}, e.gradient, 1e-6, 1e-6) <= 1);
    CHECK(worst_error(loss.doubles(), {e.loss}, 1e-6, 1e-6) <= 1);
  });
}

TEST_CASE("cross-entropy: no rows, and rows that are all ignored", "[cross_entropy]") {
  Case<float> c{0, 10, {}, {}};
  check_case(c, 0, 0);  // 0 / 0 is NaN, as PyTorch's mean
  c.mean = false;
  check_case(c, 0, 0);
  for (const std::int64_t classes : {3, 70}) {
    c = random_case<float>(4, classes);
    c.targets.assign(4, -100);
    c.mean = true;
    typename Case<float>::Expected e = c.expected();
    CHECK(std::isnan(e.loss));
    CHECK(e.gradient == std::vector<double>(e.gradient.size(), 0.0));
    check_case(c, 0, 0);
    c.mean = false;
    check_case(c, 0, 0);
  }
}

TEST_CASE("cross-entropy: the ignored index may be a class", "[cross_entropy]") {
  for (const std::int64_t classes : {3, 70}) {
    Case<float> c = random_case<float>(5, classes);
    c.targets = {0, 2, 1, 2, 0};
    c.ignore_index = 2;
    check_case(c, 1e-6, 1e-6);
  }
}

TEST_CASE("cross-entropy stays exact for logits of any size", "[cross_entropy]") {
  for (const std::int64_t classes : {10, 300}) {
    for (const double smoothing : {0.0, 0.1}) {
      INFO("classes " << classes << ", smoothing " << smoothing);
      Case<float> c = random_case<float>(7, classes, 9999, 10001);  // large, with small differences
      c.label_smoothing = smoothing;
      check_case(c, 2e-6, 2e-6);
      for (const double largest : {1e4, 1e9}) {
        c = random_case<float>(7, classes, -largest, largest);
        c.label_smoothing = smoothing;
        check_case(c, 2e-6, 2e-6);
      }
    }
  }
}

TEST_CASE("cross-entropy with classes masked by the least number", "[cross_entropy]") {
  for (const std::int64_t classes : {10, 300, 5000}) {
    INFO("classes " << classes);
    Case<float> c = random_case<float>(3, classes);
    c.targets = {4, 5, 6};
    // All but a few, so that on a GPU most threads have none that is not masked.
    for (std::int64_t j = 7; j < classes; ++j) {
      c.logits[static_cast<std::size_t>(j)] = std::numeric_limits<float>::lowest();
      c.logits[static_cast<std::size_t>(classes + j)] = -1e10f;
    }
    check_case(c, 2e-6, 2e-6);
  }
}

TEST_CASE("cross-entropy: a gradient that is nearer to a multiple of 16 bytes than the logits",
          "[cross_entropy]") {
  constexpr std::int64_t kRows = 3, kClasses = 301;
  const Case<float> c = random_case<float>(kRows, kClasses);
  const std::vector<double> expected = c.expected().gradient;
  for (const int shift : {0, 1, 3}) {
    INFO("shift " << shift);
    on_every_device([&](Device device, const Stream& stream) {
      const DeviceArray<std::int64_t> targets(device, c.targets);
      const DeviceArray<float> logits(device, c.logits), count(device, {static_cast<float>(c.divisor())});
      DeviceArray<float> stats(device, 2 * kRows), loss(device, 1);
      DeviceArray<float> gradient(device, kRows * kClasses + 4, 0.5f);
      DeviceArray<int> invalid(device, 1);
      const CrossEntropyProblem problem{DType::f32, DType::i64, targets.data(), kRows,         kClasses,
                                        -100,       0,          count.data(),   invalid.data()};
      cross_entropy_forward(stream, problem, logits.data(), stats.data(), nullptr, loss.data());
      for (const bool accumulate : {false, true}) {
        cross_entropy_backward(stream, problem, logits.data(), stats.data(), nullptr, gradient.data() + shift,
                               accumulate);
        std::vector<double> found = gradient.doubles();
        for (std::size_t i = 0; i < found.size(); ++i) {  // what lies around it stays
          if (i < static_cast<std::size_t>(shift) || i >= expected.size() + static_cast<std::size_t>(shift)) {
            CHECK(found[i] == 0.5);
          }
        }
        found = std::vector<double>(found.begin() + shift,
                                    found.begin() + shift + static_cast<std::ptrdiff_t>(expected.size()));
        std::vector<double> wanted = expected;
        for (double& value : wanted) value *= accumulate ? 2 : 1;
        CHECK(worst_error(found, wanted, 4e-6, 1e-6) <= 1);
      }
    });
  }
}

TEST_CASE("cross-entropy with classes masked by -inf", "[cross_entropy]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const std::int64_t classes : {10, 300}) {
    for (const double smoothing : {0.0, 0.1}) {
      INFO("classes " << classes << ", smoothing " << smoothing);
      Case<float> c = random_case<float>(3, classes);
      c.label_smoothing = smoothing;
      c.targets = {4, 5, 6};
      c.logits[0] = c.logits[1] = -inf;  // the first elements of a row
      for (std::int64_t j = 7; j < classes; ++j) c.logits[static_cast<std::size_t>(classes + j)] = -inf;
      CHECK(std::isinf(c.expected().loss) == (smoothing > 0));
      check_case(c, 2e-6, 2e-6);
      c.targets[0] = 1;  // masked: the loss is infinite and the gradient is not NaN
      CHECK(c.expected().loss == INFINITY);
      check_case(c, 2e-6, 2e-6);
    }
  }
}

TEST_CASE("cross-entropy passes NaN and all -inf on to the loss", "[cross_entropy]") {
  for (const std::int64_t classes : {10, 300}) {
    for (const float value : {NAN, -INFINITY}) {
      on_every_device([&](Device device, const Stream& stream) {
        std::vector<float> values(static_cast<std::size_t>(classes), std::isnan(value) ? 1.0f : value);
        values[3] = value;
        DeviceArray<float> logits(device, values), loss(device, 1);
        DeviceArray<std::int32_t> target(device, 1), invalid(device, 1);
        const CrossEntropyProblem problem{DType::f32, DType::i32, target.data(), 1, classes, -100,
                                          0,          nullptr,    invalid.data()};
        cross_entropy_fused(stream, problem, logits.data(), loss.data());
        CHECK(std::isnan(loss.host()[0]));
        CHECK(std::isnan(logits.host()[0]));
      });
    }
  }
}

TEMPLATE_TEST_CASE("cross-entropy: a target outside of the classes is reported and not followed",
                   "[cross_entropy]", std::int32_t, std::int64_t) {
  for (const std::int64_t classes : {10, 300}) {
    for (const TestType bad :
         {static_cast<TestType>(classes), TestType{-1}, std::numeric_limits<TestType>::max()}) {
      on_every_device([&](Device device, const Stream& stream) {
        const DeviceArray<TestType> targets(device, {TestType{1}, bad, TestType{2}});
        DeviceArray<float> logits(device, random_values<float>(3 * classes, 5));
        DeviceArray<float> stats(device, 6), row_loss(device, 3), loss(device, 1);
        DeviceArray<int> invalid(device, 1);
        const CrossEntropyProblem problem{DType::f32, dtype_of<TestType>, targets.data(), 3, classes, -100, 0,
                                          nullptr,    invalid.data()};
        cross_entropy_forward(stream, problem, logits.data(), stats.data(), row_loss.data(), loss.data());
        CHECK(invalid.host()[0] == 2);  // 1 + the row
        CHECK(row_loss.host()[0] > 0);
        CHECK(row_loss.host()[1] == 0);
        DeviceArray<int> invalid_fused(device, 1);
        CrossEntropyProblem again = problem;
        again.invalid_target = invalid_fused.data();
        cross_entropy_fused(stream, again, logits.data(), loss.data());
        CHECK(invalid_fused.host()[0] == 2);
        CHECK(logits.host()[static_cast<std::size_t>(classes)] == 0);
      });
    }
  }
}

TEST_CASE("count_correct: first of equals wins, NaN never does", "[cross_entropy]") {
  for (const std::int64_t classes : {4, 300}) {
    on_every_device([&](Device device, const Stream& stream) {
      std::vector<float> logits(static_cast<std::size_t>(6 * classes), 0.0f);
      const auto at = [&](int row, std::int64_t j) -> float& {
        return logits[static_cast<std::size_t>(row * classes + j)];
      };
      at(0, 2) = 1;                       // right
      at(1, 2) = 1;                       // wrong: the target is 1
      at(2, 1) = at(2, 3) = 1;            // right: the first of equals
      at(3, 1) = at(3, classes - 1) = 1;  // wrong: the target is the last of equals
      at(4, 0) = NAN;                     // wrong, though the target is larger than the rest
      at(4, 1) = 1;
      at(5, 1) = 1;  // ignored
      const DeviceArray<std::int32_t> targets(device,
                                              {2, 1, 1, static_cast<std::int32_t>(classes - 1), 1, -100});
      const DeviceArray<float> x(device, logits);
      DeviceArray<float> correct(device, {100});
      const CrossEntropyProblem problem{DType::f32, DType::i32, targets.data(), 6,      classes,
                                        -100,       0,          nullptr,        nullptr};
      count_correct(stream, problem, x.data(), correct.data(), true);
      CHECK(correct.host()[0] == 102);
      count_correct(stream, problem, x.data(), correct.data(), false);
      CHECK(correct.host()[0] == 2);
    });
  }
}

}  // namespace ringtape::test
