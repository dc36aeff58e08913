// Every rung of the kernel ladders against a reference in double precision.
#include <cmath>
#include <utility>

#include "core/error.h"
#include "kernels/ladders/gemm/trial.h"
#include "kernels/ladders/ladders.h"
#include "kernels/ladders/reduce/trial.h"
#include "kernels/ladders/softmax/trial.h"
#include "kernels/ladders/transpose/trial.h"
#include "tests/support/kernel_test.h"

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
    for (const auto& [rung, launch] : ladders::transpose_rungs()) {
      INFO(rung.name);
      const DeviceArray<float> to(device, kRows * kColumns, NAN);
      launch(stream, TransposeProblem{from.data(), to.data(), kRows, kColumns});
      CHECK(to.host() == expected);
    }
  });
}

namespace {

void check_products(int m, int n, int k) {
  // Values that bf16 holds; all positive, so that the sums do not cancel.
  const auto a = random_values<bfloat16>(m * k, 1, 0.25, 1.25),
             b = random_values<bfloat16>(k * n, 2, 0.25, 1.25);
  const std::vector<double> a_values = to_doubles(a), b_values = to_doubles(b);
  std::vector<double> expected(static_cast<std::size_t>(m * n));
  for (int i = 0; i < m; ++i) {
    for (int l = 0; l < k; ++l) {
      for (int j = 0; j < n; ++j) expected[i * n + j] += a_values[i * k + l] * b_values[l * n + j];
    }
  }
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> a32(device, convert<float>(a_values)), b32(device, convert<float>(b_values));
    const DeviceArray<bfloat16> a16(device, a), b16(device, b);
    for (const auto& [rung, launch] : ladders::gemm_rungs()) {
      INFO(m << " x " << n << " x " << k << ", " << rung.name);
      const DeviceArray<float> c(device, m * n, NAN);
      GemmProblem problem{a32.data(), b32.data(), c.data(), m, n, k};
      if (rung.inputs == DType::bf16) {
        problem.a = a16.data();
        problem.b = b16.data();
      }
      launch(stream, problem);
      CHECK(worst_error(c.doubles(), expected, (k + 4) * 0x1p-24) <= 1);
    }
  });
}

}  // namespace

TEST_CASE("ladders: each matrix product is right", "[ladders]") {
  check_products(256, 128, 64);  // two blocks above each other, two steps along k or more
  check_products(128, 256, 32);  // two blocks side by side
}

TEST_CASE("ladders: each reduction is right, and the same each time", "[ladders]") {
  // One block, and a first pass that leaves several warps' worth of sums, which contains squares.
  for (const auto& [n, squares] : {std::pair(std::int64_t{1024}, false), {std::int64_t{9216}, true}}) {
    const auto x = random_values<float>(n, 1, 0.25, 1.25);
    double expected = 0;
    for (const float value : x) expected += squares ? static_cast<double>(value) * value : value;
    on_every_device([&, n = n, squares = squares](Device device, const Stream& stream) {
      const DeviceArray<float> from(device, x), scratch(device, n / 128, NAN);
      const DeviceArray<unsigned> counter(device, 1);
      for (const auto& [rung, launch] : ladders::reduce_rungs()) {
        INFO("n " << n << ", " << rung.name);
        std::vector<float> results;
        for (int run = 0; run < 2; ++run) {
          const DeviceArray<float> result(device, 1, NAN);
          launch(stream,
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

TEST_CASE("ladders: each softmax cross-entropy is right", "[ladders]") {
  constexpr int kRows = 64;
  for (const int classes :
       {64, 576}) {  // fewer than a block's threads hold, and no multiple of what they hold
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
      for (const auto& [rung, launch] : ladders::softmax_rungs()) {
        INFO("classes " << classes << ", " << rung.name);
        const DeviceArray<float> l(device, kRows, NAN), g(device, kRows * classes, NAN);
        launch(stream, SoftmaxProblem{x.data(), t.data(), l.data(), g.data(), kRows, classes});
        // softmax_exp is off by 2 + |x| units where the GPU's is, |x| up to 60; the loss is below 60.
        const double rounding = (classes + 96) * 0x1p-24;
        CHECK(worst_error(l.doubles(), loss, rounding, rounding) <= 1);
        CHECK(worst_error(g.doubles(), gradient, rounding, rounding / kRows) <= 1);
      }
    });
  }
}

TEST_CASE("ladders: each attention and layer norm is right", "[ladders]") {
  const std::string name = GENERATE("attention", "layer_norm");
  for (const int size : {64, 192}) {  // one tile; several, the last in another of two buffers
    on_every_device([&](Device device, const Stream& stream) {
      const ladders::Trial trial = ladders::make_trial(name, size, device);
      for (int version = 1; version <= static_cast<int>(trial.rungs.size()); ++version) {
        INFO(name << " of " << size << ", version " << version);
        CHECK(error_of(trial, trial.run, stream, version) <= 1);
      }
    });
  }
}

TEST_CASE("ladders: a trial checks its own result", "[ladders]") {
  for (const std::string& name : ladders::names()) {
    const ladders::Trial trial = ladders::make_trial(name, 128, Device{});
    const Stream stream = Stream::current({});
    CHECK(error_of(trial, trial.run, stream, 1) <= 1);
    auto* result = static_cast<float*>(trial.memory.back().data);
    result[0] = std::nextafter(result[0] * 1.001f, INFINITY);
    CHECK(trial.error() > 1);
    const int last = static_cast<int>(trial.rungs.size());
    CHECK(error_of(trial, trial.run, stream, last) <= 1);
    // Results of the rung before do not count for a rung that computes nothing.
    CHECK(error_of(
              trial, [](const Stream&, int) {}, stream, last) == INFINITY);
    if (trial.vendor) {
      for (const int version : {1, last}) CHECK(error_of(trial, trial.vendor, stream, version) <= 1);
    }
  }
  // Every row of the softmax is checked.
  const ladders::Trial softmax = ladders::make_trial("softmax", 256, Device{});
  softmax.run(Stream::current({}), 1);
  for (int row = 0; row < 256; ++row) {
    float& element = static_cast<float*>(softmax.memory.back().data)[row * 256 + 5];
    const float right = std::exchange(element, element * 1.001f);
    CHECK(softmax.error() > 1);
    element = right;
  }
  CHECK_THROWS_WITH(ladders::make_trial("sort", 128, Device{}),
                    ContainsSubstring("no ladder is named 'sort'"));
  CHECK_THROWS_WITH(ladders::make_trial("gemm", 64, Device{}),
                    ContainsSubstring("expected a multiple of 128"));
  CHECK_THROWS_WITH(ladders::make_trial("gemm", 0, Device{}), ContainsSubstring("a size of 0"));
}

}  // namespace ringtape::test
