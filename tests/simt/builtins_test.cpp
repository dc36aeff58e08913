// The CUDA built-ins and the helpers of kernels/common/kernel.h: the same meaning on every device, under
// every thread order.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "tests/simt/builtins_kernels.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/kernel_test.h"

using namespace ringtape;
using namespace ringtape::test;

TEST_CASE("built-ins: every thread of a grid runs once and knows where it is", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    DeviceArray<int> out(device, 6 * 2 * 3 * 4 * 5 * 3 * 2, -1);
    test_indices(stream, 2, 3, 4, 5, 3, 2, out.data());
    std::vector<int> expected;
    for (int gz = 0; gz < 4; ++gz)
      for (int gy = 0; gy < 3; ++gy)
        for (int gx = 0; gx < 2; ++gx)
          for (int bz = 0; bz < 2; ++bz)
            for (int by = 0; by < 3; ++by)
              for (int bx = 0; bx < 5; ++bx) expected.insert(expected.end(), {gx, gy, gz, bx, by, bz});
    CHECK(out.host() == expected);
  });
}

TEST_CASE("built-ins: a grid without blocks runs nothing", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    DeviceArray<int> out(device, 6, -1);
    test_indices(stream, 0, 1, 1, 32, 1, 1, out.data());
    test_indices(stream, 1, 1, 0, 32, 1, 1, out.data());
    CHECK(out.host() == std::vector<int>(6, -1));
  });
}

TEST_CASE("built-ins: a barrier and dynamic shared memory, for blocks of any size", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    for (const int n : {1, 31, 33, 257, 1024}) {
      std::vector<int> values(n);
      std::iota(values.begin(), values.end(), 7);
      const DeviceArray<int> in(device, values);
      DeviceArray<int> out(device, n, -1);
      test_reverse(stream, n, in.data(), out.data());
      std::reverse(values.begin(), values.end());
      CHECK(out.host() == values);
    }
  });
}

GPU_TEST_CASE("a launch that a GPU refuses is an error that names the kernel, and of that launch alone",
              "[simt]") {
  const Device gpu{DeviceType::cuda, 0};
  const Stream stream = Stream::current(gpu);
  DeviceArray<int> out(gpu, 1, -1);
  const auto last_byte = [&](int threads, std::size_t bytes) {
    test_shared_memory(stream, threads, bytes, out.data());
    return out.host()[0];
  };
  CHECK_THROWS_WITH(last_byte(2000, 64),
                    ContainsSubstring("use_last_byte") && ContainsSubstring("could not be launched"));
  CHECK(last_byte(32, 64) == 7);
  // 16 MiB are more than any GPU's multiprocessor has.
  CHECK_THROWS_WITH(last_byte(32, 16 << 20),
                    ContainsSubstring("use_last_byte") && ContainsSubstring("could not be launched"));
  CHECK(last_byte(32, 64) == 7);
  CHECK(last_byte(32, 64 << 10) == 7);  // more than the 48 KiB that a block has without an opt-in
}

TEST_CASE("built-ins: threads that have returned are not waited for", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    for (const int staying : {1, 2, 40, 255, 256}) {
      DeviceArray<int> out(device, 256, -1);
      test_rotate(stream, 256, staying, 5, out.data());
      std::vector<int> expected(256, -1);
      for (int i = 0; i < staying; ++i) expected[i] = (i + 5) % staying;
      CHECK(out.host() == expected);
    }
  });
}

TEST_CASE("built-ins: shuffles", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    DeviceArray<int> out(device, 8 * 32, -1);
    test_shuffles(stream, out.data());
    const std::vector<int> values = out.host();
    for (int lane = 0; lane < 32; ++lane) {
      const int group = lane / 8 * 8;
      const std::vector<int> expected = {105,
                                         100 + group + 5,
                                         100 + (lane < 3 ? lane : lane - 3),
                                         100 + (lane - group < 3 ? lane : lane - 3),
                                         100 + (lane > 28 ? lane : lane + 3),
                                         100 + (lane - group > 4 ? lane : lane + 3),
                                         100 + (lane ^ 17),
                                         100 + (lane ^ 6)};
      CHECK(std::vector<int>(values.begin() + 8 * lane, values.begin() + 8 * lane + 8) == expected);
    }
  });
}

TEST_CASE("built-ins: the two halves of a warp meet at separate barriers, by their masks", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    DeviceArray<int> out(device, 32, -1);
    test_partial_masks(stream, 3, out.data());
    // Lane 0 of the lower half has 1 at the end. In the upper half the first round gives both lanes of a pair
    // their sum, and later rounds double it.
    std::vector<int> expected;
    for (int lane = 0; lane < 16; ++lane) expected.push_back((lane ^ 1) + 1);
    for (int lane = 16; lane < 32; ++lane) expected.push_back((lane + (lane ^ 1)) * 4 + 1);
    CHECK(out.host() == expected);
  });
}

TEST_CASE("built-ins: votes", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    for (const unsigned pattern : {0u, 1u, 0x80000001u, 0xffffffffu, 0x5a5a1234u}) {
      std::vector<int> in(32);
      for (int lane = 0; lane < 32; ++lane) in[lane] = static_cast<int>(pattern >> lane & 1);
      const DeviceArray<int> votes(device, in);
      DeviceArray<unsigned> out(device, 96, 7u);
      test_votes(stream, votes.data(), out.data());
      const std::vector<unsigned> values = out.host();
      for (int lane = 0; lane < 32; ++lane) {
        CHECK(values[3 * lane] == pattern);
        CHECK(values[3 * lane + 1] == (pattern != 0));
        CHECK(values[3 * lane + 2] == (pattern == 0xffffffffu));
      }
    }
  });
}

namespace {

/// The butterfly of kernels/common/block_reduce.h, done by hand: lanes 16 apart, then 8, 4, 2, 1; then the
/// warps.
template <class T>
T tree_sum(std::vector<T> values) {
  if (values.size() > 32) {
    std::vector<T> warps;
    for (std::size_t first = 0; first < values.size(); first += 32) {
      const auto last = values.begin() + static_cast<std::ptrdiff_t>(std::min(first + 32, values.size()));
      warps.push_back(tree_sum(std::vector<T>(values.begin() + static_cast<std::ptrdiff_t>(first), last)));
    }
    return tree_sum(warps);
  }
  for (std::size_t step = 16; step > 0; step /= 2) {
    for (std::size_t i = 0; i < step && i + step < values.size(); ++i) values[i] += values[i + step];
  }
  return values[0];
}

template <class T>
void check_reductions(DType dtype, Device device, const Stream& stream) {
  for (const int threads : {1, 31, 32, 33, 257, 1024}) {
    constexpr int kBlocks = 3;
    std::vector<T> values;
    for (const double value : random_values<double>(kBlocks * threads, 11, -1000, 1000)) {
      values.push_back(static_cast<T>(value));
    }
    const DeviceArray<T> in(device, values);
    DeviceArray<T> out(device, 4 * kBlocks * threads);
    test_reductions(stream, dtype, kBlocks, threads, in.data(), out.data());
    const std::vector<T> results = out.host();
    for (int i = 0; i < kBlocks * threads; ++i) {
      const auto first = values.begin() + i / threads * threads;
      const auto warp = first + i % threads / 32 * 32;
      const std::vector<T> block_values(first, first + threads);
      const std::vector<T> warp_values(warp, warp + std::min<std::ptrdiff_t>(32, first + threads - warp));
      const std::vector<T> expected = {
          tree_sum(block_values), *std::max_element(block_values.begin(), block_values.end()),
          tree_sum(warp_values), *std::max_element(warp_values.begin(), warp_values.end())};
      const auto mine = results.begin() + 4 * i;
      if (std::vector<T>(mine, mine + 4) != expected) {
        FAIL("thread " << i << " of blocks of " << threads << ": sum " << mine[0] << ", expected "
                       << expected[0]);
      }
    }
  }
}

}  // namespace

TEST_CASE("built-ins: sums and maxima over warps and blocks, in the stated order", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    check_reductions<float>(DType::f32, device, stream);
    check_reductions<double>(DType::f64, device, stream);
    check_reductions<std::int64_t>(DType::i64, device, stream);
  });
}

TEST_CASE("built-ins: a sum over blocks that the last block completes", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    DeviceArray<float> partial(device, 1024), total(device, 1);
    DeviceArray<unsigned> counter(device, 1);
    for (const std::int64_t n : {1, 31, 33, 257, 4096, 1000003}) {
      const std::vector<float> values = random_values<float>(n, 5, 0, 1);
      const double expected = std::accumulate(values.begin(), values.end(), 0.0);
      const DeviceArray<float> x(device, values);
      test_sum(stream, x.data(), n, partial.data(), counter.data(), total.data());
      const float first = total.host()[0];
      // Trees and slots: no value takes part in more than about 60 successive roundings, of half an ulp each.
      CHECK(std::abs(first - expected) <= 60 * rounding<float>() * expected);
      test_sum(stream, x.data(), n, partial.data(), counter.data(), total.data());
      CHECK(total.host()[0] == first);
    }
  });
}

TEST_CASE("built-ins: for_each_vec visits every element once", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t n : {0, 1, 3, 31, 33, 257, 4099, 16384, 100003}) {
        DeviceArray<int> visits(device, n + 4, 0);
        test_visits(stream, dtype, n, visits.data());
        std::vector<int> expected(n, 1);
        expected.resize(n + 4, 0);
        CHECK(visits.host() == expected);
      }
    }
    for (const std::int64_t columns : {1, 10, 33, 257, 5003, 50304}) {
      DeviceArray<int> visits(device, 3 * columns + 4, 0);
      test_row_visits(stream, 3, columns, visits.data());
      std::vector<int> expected(3 * columns, 1);
      expected.resize(3 * columns + 4, 0);
      CHECK(visits.host() == expected);
    }
  });
}

TEST_CASE("built-ins: vectors at any address", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    const std::vector<float> values = random_values<float>(1000, 3);
    const DeviceArray<float> x(device, values);
    for (const int offset : {0, 1, 4}) {
      DeviceArray<float> y(device, 1000, 0.0f);
      test_double(stream, DType::f32, x.data() + offset, y.data() + offset, 990);
      std::vector<float> expected(1000, 0.0f);
      for (int i = offset; i < offset + 990; ++i) expected[i] = 2 * values[i];
      CHECK(y.host() == expected);
    }
  });
}

TEST_CASE("built-ins: atomics", "[simt]") {
  on_every_device([](Device device, Stream stream) {
    DeviceArray<int> a(device, 1, -5);
    DeviceArray<unsigned> b(device, 1, 5u);
    DeviceArray<unsigned long long> c(device, 1, 1ull << 40);
    test_atomics(stream, 37, 65, a.data(), b.data(), c.data());
    CHECK(a.host()[0] == 37 * 65 - 5);
    CHECK(b.host()[0] == 37 * 65 + 5);
    CHECK(c.host()[0] == (1ull << 40) + 37 * 65);
  });
}

TEST_CASE("built-ins: an element type without a kernel is named", "[simt]") {
  const Stream stream = Stream::current({});
  CHECK_THROWS_WITH(test_visits(stream, DType::i32, 1, nullptr),
                    ContainsSubstring("test_visits") && ContainsSubstring("i32"));
}
