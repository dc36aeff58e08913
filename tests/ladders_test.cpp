// Every rung of the kernel ladders against a reference in double precision.
#include <cmath>

#include "core/error.h"
#include "kernels/ladders/gemm/gemm.h"
#include "kernels/ladders/reduce/reduce.h"
#include "kernels/ladders/softmax/softmax.h"
#include "kernels/ladders/transpose/transpose.h"
#include "kernels/ladders/trial.h"
#include "tests/kernel_test.h"

namespace ringtape::test {

TEST_CASE("ladders: each transpose puts every element in its place", "[ladders]") {
  constexpr int kRows = 64, kColumns = 192;
  const auto in = random_values<float>(kRows * kColumns, 1);
  std::vector<float> expected(in.size());
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) expected[j * kRows + i] = in[i * kColumns + j];
  }
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> from(device, in);
    for (int version = 1; version <= 5; ++version) {
      INFO("version " << version);
      const DeviceArray<float> to(device, kRows * kColumns, NAN);
      transpose_rung(stream, version, TransposeProblem{from.data(), to.data(), kRows, kColumns});
      CHECK(to.host() == expected);
    }
  });
}

TEST_CASE("ladders: each matrix product is right", "[ladders]") {
  constexpr int kM = 128, kN = 256, kK = 64;
  // Values that bf16 holds; all positive, so that the sums do not cancel.
  const auto a = random_values<bfloat16>(kM * kK, 1, 0.25, 1.25),
             b = random_values<bfloat16>(kK * kN, 2, 0.25, 1.25);
  const std::vector<double> a_values = to_doubles(a), b_values = to_doubles(b);
  std::vector<double> expected(kM * kN);
  for (int i = 0; i < kM; ++i) {
    for (int k = 0; k < kK; ++k) {
      for (int j = 0; j < kN; ++j) expected[i * kN + j] += a_values[i * kK + k] * b_values[k * kN + j];
    }
  }
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> a32(device, convert<float>(a_values)), b32(device, convert<float>(b_values));
    const DeviceArray<bfloat16> a16(device, a), b16(device, b);
    for (int version = 1; version <= 9; ++version) {
      INFO("version " << version);
      const DeviceArray<float> c(device, kM * kN, NAN);
      GemmProblem problem{a32.data(), b32.data(), c.data(), kM, kN, kK};
      if (version == 9) {
        problem.a = a16.data();
        problem.b = b16.data();
      }
      gemm_rung(stream, version, problem);
      CHECK(worst_error(c.doubles(), expected, (kK + 4) * 0x1p-24) <= 1);
    }
  });
}

TEST_CASE("ladders: each reduction is right, and the same each time", "[ladders]") {
  for (const std::int64_t n : {1024, 16 * 1024 + 1024}) {
    const auto x = random_values<float>(n, 1, 0.25, 1.25);
    for (const bool squares : {false, true}) {
      double expected = 0;
      for (const float value : x) expected += squares ? static_cast<double>(value) * value : value;
      on_every_device([&](Device device, const Stream& stream) {
        const DeviceArray<float> from(device, x), scratch(device, n / 128, NAN);
        const DeviceArray<unsigned> counter(device, 1);
        for (int version = 1; version <= 6; ++version) {
          INFO("n " << n << ", version " << version);
          std::vector<float> results;
          for (int run = 0; run < 2; ++run) {
            const DeviceArray<float> result(device, 1, NAN);
            reduce_rung(
                stream, version,
                ReduceProblem{from.data(), n, squares, scratch.data(), counter.data(), result.data()});
            results.push_back(result.host()[0]);
          }
          CHECK(worst_error({results[0]}, {expected}, 64 * 0x1p-24) <= 1);
          CHECK(results[0] == results[1]);
          CHECK(counter.host()[0] == 0);
        }
      });
    }
  }
}

TEST_CASE("ladders: each softmax cross-entropy is right", "[ladders]") {
  constexpr int kRows = 64;
  for (const int classes :
       {64, 1088}) {  // fewer than a block's threads hold, and not a multiple of what they hold
    const auto logits = random_values<float>(kRows * classes, 1, -30, 30);
    std::vector<int> targets;
    std::vector<double> loss, gradient;
    for (int row = 0; row < kRows; ++row) {
      const float* x = logits.data() + row * classes;
      targets.push_back(row * 31 % classes);
      double sum = 0;
      for (int j = 0; j < classes; ++j) sum += std::exp(static_cast<double>(x[j]));
      loss.push_back(std::log(sum) - x[targets.back()]);
      for (int j = 0; j < classes; ++j) {
        gradient.push_back((std::exp(static_cast<double>(x[j])) / sum - (j == targets.back())) / kRows);
      }
    }
    on_every_device([&](Device device, const Stream& stream) {
      const DeviceArray<float> x(device, logits);
      const DeviceArray<int> t(device, targets);
      for (int version = 1; version <= 5; ++version) {
        INFO("classes " << classes << ", version " << version);
        const DeviceArray<float> l(device, kRows, NAN), g(device, kRows * classes, NAN);
        softmax_rung(stream, version, SoftmaxProblem{x.data(), t.data(), l.data(), g.data(), kRows, classes});
        // softmax_exp is off by 2 + |x| units where the GPU's is, |x| up to 60; the loss is below 60.
        const double rounding = (classes + 96) * 0x1p-24;
        CHECK(worst_error(l.doubles(), loss, rounding, rounding) <= 1);
        CHECK(worst_error(g.doubles(), gradient, rounding, rounding / kRows) <= 1);
      }
    });
  }
}

TEST_CASE("ladders: a trial checks its own result", "[ladders]") {
  for (const std::string& name : ladders::names()) {
    const ladders::Trial trial = ladders::make_trial(name, 128, Device{});
    const Stream stream = Stream::current({});
    trial.run(stream, 1);
    CHECK(trial.error(1) <= 1);
    auto* result = static_cast<float*>(const_cast<void*>(trial.memory.back().data));
    result[0] = std::nextafter(result[0] * 1.001f, INFINITY);
    CHECK(trial.error(1) > 1);
    const int last = static_cast<int>(trial.rungs.size());
    trial.run(stream, last);
    CHECK(trial.error(last) <= 1);
    if (trial.vendor) {
      for (const int version : {1, last}) {
        result[0] = NAN;
        trial.vendor(stream, version);
        CHECK(trial.error(version) <= 1);
      }
    }
  }
  CHECK_THROWS_WITH(ladders::make_trial("sort", 128, Device{}),
                    ContainsSubstring("no ladder is named 'sort'"));
  CHECK_THROWS_WITH(ladders::make_trial("gemm", 64, Device{}),
                    ContainsSubstring("expected a multiple of 128"));
  CHECK_THROWS_WITH(ladders::make_trial("gemm", 0, Device{}), ContainsSubstring("a size of 0"));
}

}  // namespace ringtape::test
