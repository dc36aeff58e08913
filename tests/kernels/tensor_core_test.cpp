// ldmatrix, mma and cp.async: the CPU's models against the layouts of the PTX ISA, and the GPU against the
// same.
#include "tests/kernels/tensor_core_kernels.h"

#include <bit>
#include <cmath>
#include <utility>

#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

struct Element {
  int row, column;
};

/// The two elements of an 8 x 8 matrix that a lane's register holds, low half first.
std::pair<Element, Element> elements_of(int lane) {
  return {{lane / 4, 2 * (lane % 4)}, {lane / 4, 2 * (lane % 4) + 1}};
}

unsigned packed(bfloat16 low, bfloat16 high) {
  return low.bits | static_cast<unsigned>(high.bits) << 16;
}

/// Registers of mma's operands for A (16 x 16) and B (16 x 8), both row-major. An operand is made of 8 x 8
/// quarters: of A the upper left, lower left, upper right and lower right; of B, transposed, the upper and
/// lower.
struct Operands {
  Operands(const std::vector<bfloat16>& a_values, const std::vector<bfloat16>& b_values) {
    const Element quarters[] = {{0, 0}, {8, 0}, {0, 8}, {8, 8}};
    for (int lane = 0; lane < 32; ++lane) {
      const auto [low, high] = elements_of(lane);
      for (const Element& q : quarters) {
        a.push_back(packed(a_values[(q.row + low.row) * 16 + q.column + low.column],
                           a_values[(q.row + high.row) * 16 + q.column + high.column]));
      }
      for (const int first_row : {0, 8}) {
        b.push_back(packed(b_values[(first_row + low.column) * 8 + low.row],
                           b_values[(first_row + high.column) * 8 + high.row]));
      }
    }
  }
  std::vector<unsigned> a, b;
};

/// The sums (16 x 8) as lanes hold them: two neighbours of the upper half, two of the lower.
std::vector<double> in_lanes(const std::vector<double>& sums) {
  std::vector<double> registers;
  for (int lane = 0; lane < 32; ++lane) {
    const auto [low, high] = elements_of(lane);
    for (const int first_row : {0, 8}) {
      registers.push_back(sums[(first_row + low.row) * 8 + low.column]);
      registers.push_back(sums[(first_row + high.row) * 8 + high.column]);
    }
  }
  return registers;
}

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b,
                            std::vector<double> sums) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      for (int k = 0; k < 16; ++k) sums[i * 8 + j] += a[i * 16 + k] * b[k * 8 + j];
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("tensor core: ldmatrix hands each lane its two elements of four matrices", "[ladders]") {
  std::vector<std::uint16_t> matrices;
  for (int i = 0; i < 4 * 64; ++i) matrices.push_back(static_cast<std::uint16_t>(1000 + i));
  const auto value = [](int matrix, Element e) {
    return static_cast<unsigned>(1000 + matrix * 64 + e.row * 8 + e.column);
  };
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<std::uint16_t> from(device, matrices);
    for (const bool transposed : {false, true}) {
      DeviceArray<unsigned> registers(device, 32 * 4);
      test_load_matrices(stream, transposed, from.data(), registers.data());
      std::vector<unsigned> expected;
      for (int lane = 0; lane < 32; ++lane) {
        auto [low, high] = elements_of(lane);
        if (transposed) {
          std::swap(low.row, low.column);
          std::swap(high.row, high.column);
        }
        for (int matrix = 0; matrix < 4; ++matrix) {
          expected.push_back(value(matrix, low) | value(matrix, high) << 16);
        }
      }
      CHECK(registers.host() == expected);
    }
  });
}

TEST_CASE("tensor core: mma multiplies what the lanes hold, and a wrong lane shows", "[ladders]") {
  const auto a = random_values<bfloat16>(16 * 16, 1, 0.5, 2), b = random_values<bfloat16>(16 * 8, 2, 0.5, 2);
  const auto c = random_values<float>(16 * 8, 3, 0.5, 2);
  const std::vector<double> expected = in_lanes(product(to_doubles(a), to_doubles(b), to_doubles(c)));
  std::vector<float> sums;
  for (const double value : in_lanes(to_doubles(c))) sums.push_back(static_cast<float>(value));
  const Operands right(a, b);
  constexpr double kRounding = 20 * 0x1p-24;  // 17 terms, all positive
  on_every_device([&](Device device, const Stream& stream) {
    const auto error_with = [&](const Operands& operands) {
      const DeviceArray<unsigned> a_registers(device, operands.a), b_registers(device, operands.b);
      const DeviceArray<float> result(device, sums);
      test_multiply_matrices(stream, a_registers.data(), b_registers.data(), result.data());
      return worst_error(result.doubles(), expected, kRounding);
    };
    CHECK(error_with(right) <= 1);
    Operands wrong = right;
    std::swap(wrong.a[4 * 5], wrong.a[4 * 6]);  // lanes 5 and 6 hold each other's
    CHECK(error_with(wrong) > 100);
    wrong = right;
    std::swap(wrong.a[4 * 9 + 1], wrong.a[4 * 9 + 2]);  // one lane has two registers in the other order
    CHECK(error_with(wrong) > 100);
    wrong = right;
    std::swap(wrong.b[2 * 31], wrong.b[2 * 31 + 1]);
    CHECK(error_with(wrong) > 100);
    wrong = right;
    wrong.b[0] = std::rotr(wrong.b[0], 16);  // halves the wrong way round
    CHECK(error_with(wrong) > 100);
  });
}

TEST_CASE("cp.async: what has been waited for is there, and on the CPU nothing else", "[ladders]") {
  const auto from = random_values<float>(512, 4, 1, 2);
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> source(device, from);
    for (const bool waits : {true, false}) {
      if (!waits && device.is_cuda()) continue;  // a race there
      const DeviceArray<float> first(device, 256), second(device, 256);
      test_async_copies(stream, waits, source.data(), first.data(), second.data());
      const std::vector<float> got_first = first.host(), got_second = second.host();
      int right = 0, nan = 0;
      for (int thread = 0; thread < 64; ++thread) {
        for (int i = 0; i < 4; ++i) {
          const int to = thread * 4 + i, at = (thread ^ 33) * 4 + i;
          right += (got_first[to] == from[at]) + (got_second[to] == from[256 + at]);
          nan += std::isnan(got_first[to]) + std::isnan(got_second[to]);
        }
      }
      CHECK(right == (waits ? 512 : 0));
      CHECK(nan == (waits ? 0 : 512));
    }
  });
}

TEST_CASE("cp.async: the CPU's model says where it has no room for a thread's copies", "[ladders]") {
  const auto from = random_values<float>(100, 4, 1, 2);
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> source(device, from);
    const auto copied = [&](int count, bool in_groups) {
      const DeviceArray<float> result(device, from.size());
      test_many_copies(stream, count, in_groups, source.data(), result.data());
      std::vector<float> values = result.host();
      values.resize(static_cast<std::size_t>(count));
      return values;
    };
    CHECK(copied(64, false) == std::vector<float>(from.begin(), from.begin() + 64));
    CHECK(copied(7, true) == std::vector<float>(from.begin(), from.begin() + 7));
    if (device.is_cuda()) return;
    CHECK_THROWS_WITH(copied(65, false), ContainsSubstring("a thread has 64 asynchronous copies in flight"));
    CHECK_THROWS_WITH(copied(8, true),
                      ContainsSubstring("a thread has 8 groups of asynchronous copies in flight"));
  });
}

}  // namespace ringtape::test
