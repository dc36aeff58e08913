// Cross-entropy of logits whose classes are divided among ranks: the parts of several ranks, one after
// another in one process.
#include "kernels/cross_entropy_shard.h"

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/common/accumulate.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

constexpr std::int64_t kRows = 37, kClasses = 83, kIgnored = -100;
constexpr double kDivisor = 29, kUpstream = 1.5;

/// Class 7 * row modulo the number of classes; every fifth target is ignored.
std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> result;
  for (std::int64_t row = 0; row < kRows; ++row)
    result.push_back(row % 5 == 2 ? kIgnored : 7 * row % kClasses);
  return result;
}

bool counts(std::int64_t target) {
  return target >= 0 && target < kClasses;
}

/// The loss, and the gradient of logits [kRows, kClasses], in double.
std::pair<double, std::vector<double>> reference(const std::vector<double>& logits,
                                                 const std::vector<std::int64_t>& classes) {
  double loss = 0;
  std::vector<double> gradient(logits.size(), 0);
  for (std::size_t row = 0; row < kRows; ++row) {
    if (!counts(classes[row])) continue;
    const double* const x = logits.data() + row * kClasses;
    double sum = 0;
    for (std::size_t j = 0; j < kClasses; ++j) sum += std::exp(x[j]);
    loss += std::log(sum) - x[classes[row]];
    for (std::size_t j = 0; j < kClasses; ++j) {
      const double onehot = std::cmp_equal(j, classes[row]) ? 1 : 0;
      gradient[row * kClasses + j] = (std::exp(x[j]) / sum - onehot) * kUpstream / kDivisor;
    }
  }
  return {loss / kDivisor, gradient};
}

template <class T>
void check_parts(DType dtype, int ranks, std::vector<std::int64_t> classes, std::int64_t wrong_row) {
  using A = on_cpu::accumulate_t<T>;
  const std::vector<T> logits = random_values<T>(kRows * kClasses, 3, -6, 6);
  const auto [loss, gradient] = reference(to_doubles(logits), classes);
  on_every_device<T>([&](Device device, const Stream& stream) {
    const DeviceArray<std::int64_t> targets(device, classes);
    const DeviceArray<int> invalid(device, 1, 0);
    const DeviceArray<A> all(device, ranks * kRows * 3), stats(device, kRows * 2), found(device, 1);
    const DeviceArray<A> upstream(device, 1, static_cast<A>(kUpstream));
    const auto first_of = [&](int rank) { return kClasses * rank / ranks; };
    std::vector<std::pair<CrossEntropyShard, DeviceArray<T>>> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t first = first_of(rank), own = first_of(rank + 1) - first;
      std::vector<T> part;
      for (std::int64_t row = 0; row < kRows; ++row) {
        const auto begin = logits.begin() + row * kClasses + first;
        part.insert(part.end(), begin, begin + own);
      }
      const CrossEntropyShard problem{dtype, DType::i64, targets.data(), kRows,    own,
                                      first, kClasses,   kIgnored,       kDivisor, invalid.data()};
      parts.emplace_back(problem, DeviceArray<T>(device, part));
      cross_entropy_shard_statistics(stream, problem, parts.back().second.data(),
                                     all.data() + rank * kRows * 3);
    }
    cross_entropy_shard_loss(stream, parts[0].first, all.data(), ranks, stats.data(), found.data());
    // Sums of 83 exponentials and 37 losses in A.
    CHECK(worst_error(found.doubles(), {loss}, 8 * rounding<A>()) <= 1);
    CHECK(invalid.host()[0] == static_cast<int>(wrong_row + 1));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& [problem, part] = parts[static_cast<std::size_t>(rank)];
      std::vector<double> expected;
      for (std::int64_t row = 0; row < kRows; ++row) {
        const auto begin = gradient.begin() + row * kClasses + first_of(rank);
        expected.insert(expected.end(), begin, begin + problem.classes);
      }
      const DeviceArray<T> sum(device, kRows * problem.classes, from_double<T>(1));
      cross_entropy_shard_backward(stream, problem, part.data(), stats.data(), upstream.data(), sum.data(),
                                   true);
      cross_entropy_shard_backward(stream, problem, part.data(), stats.data(), upstream.data(), part.data(),
                                   false);
      const double absolute = 16 * rounding<A>() * kUpstream / kDivisor;
      CHECK(worst_error(part.doubles(), expected, 2 * rounding<T>(), absolute) <= 1);
      for (double& value : expected) value += 1;
      CHECK(worst_error(sum.doubles(), expected, 2 * rounding<T>(), absolute) <= 1);
    }
  });
}

template <class T>
void check_ignored_infinity(DType dtype) {
  using A = on_cpu::accumulate_t<T>;
  constexpr std::int64_t kOwn = 5;
  std::vector<T> logits(2 * kOwn, from_double<T>(0));
  logits[3] = from_double<T>(std::numeric_limits<double>::infinity());
  on_every_device<T>([&](Device device, const Stream& stream) {
    const DeviceArray<std::int64_t> targets(device, {kIgnored, 1});
    const DeviceArray<int> invalid(device, 1, 0);
    const DeviceArray<T> part(device, logits), gradient(device, 2 * kOwn, from_double<T>(7));
    const DeviceArray<A> all(device, 6), stats(device, 4), loss(device, 1), upstream(device, 1, A{1});
    const CrossEntropyShard problem{dtype, DType::i64, targets.data(), 2,   kOwn,
                                    0,     kOwn,       kIgnored,       1.0, invalid.data()};
    cross_entropy_shard_statistics(stream, problem, part.data(), all.data());
    cross_entropy_shard_loss(stream, problem, all.data(), 1, stats.data(), loss.data());
    cross_entropy_shard_backward(stream, problem, part.data(), stats.data(), upstream.data(), gradient.data(),
                                 false);
    CHECK(worst_error(loss.doubles(), {std::log(5.0)}, 8 * rounding<A>()) <= 1);
    const std::vector<double> expected{0, 0, 0, 0, 0, 0.2, -0.8, 0.2, 0.2, 0.2};
    CHECK(worst_error(gradient.doubles(), expected, 2 * rounding<T>()) <= 1);
  });
}

}  // namespace

TEST_CASE("cross_entropy_shard: an ignored row of infinite logits has a gradient of 0", "[cross_entropy]") {
  check_ignored_infinity<float>(DType::f32);
  check_ignored_infinity<double>(DType::f64);
  check_ignored_infinity<bfloat16>(DType::bf16);
  check_ignored_infinity<float16>(DType::f16);
}

TEST_CASE("cross_entropy_shard: loss and gradients of the parts are those of the whole", "[cross_entropy]") {
  for (const int ranks : {1, 2, 3, 8}) {
    INFO(ranks << " ranks");
    check_parts<float>(DType::f32, ranks, targets(), -1);
    check_parts<double>(DType::f64, ranks, targets(), -1);
    check_parts<bfloat16>(DType::bf16, ranks, targets(), -1);
    check_parts<float16>(DType::f16, ranks, targets(), -1);
  }
}

TEST_CASE("cross_entropy_shard: a target that is no class is reported, and its row ignored",
          "[cross_entropy]") {
  for (const std::int64_t wrong : {kClasses, std::int64_t{-1}}) {
    std::vector<std::int64_t> classes = targets();
    classes[11] = wrong;
    check_parts<float>(DType::f32, 3, classes, 11);
  }
}

}  // namespace ringtape::test
