#include "kernels/embedding.h"

#include "tests/support/check_build.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

enum class Repeats { all_differ, some, all_equal };

struct Case {
  std::int64_t rows, columns, vocabulary;
  Repeats repeats;
};

// Rows for one warp of the sort and for many, also more than 16 a thread; vocabularies of 1 to 3 digits of 8
// bits, with their largest numbers; columns with and without vectors left over.
constexpr std::int64_t kMany = kCheckBuild ? 2100 : 17000;
const std::vector<Case> kCases = {
    {0, 5, 3, Repeats::some},         {1, 1, 1, Repeats::some},
    {5, 3, 15, Repeats::some},        {40, 8, 16, Repeats::some},
    {300, 300, 17, Repeats::some},    {600, 5, 255, Repeats::all_equal},
    {1100, 16, 256, Repeats::some},   {700, 4, 4096, Repeats::all_differ},
    {500, 4, 65535, Repeats::some},   {500, 4, 65536, Repeats::some},
    {kMany, 2, 70000, Repeats::some}, {kMany, 4, 65, Repeats::all_equal},
    {64, 1030, 300, Repeats::some},
};

/// Tokens from -1 to the vocabulary's size, which are both outside the table, and often its last token.
template <class Token>
std::vector<Token> tokens_of(const Case& c) {
  const std::vector<float> uniform = random_values<float>(c.rows, 3, 0, 1);
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    std::int64_t token = c.vocabulary - 1;
    if (c.repeats == Repeats::all_differ) token = (i * 7 + 1) % c.vocabulary;
    if (c.repeats == Repeats::some && i % 3 != 0) {
      // Small tokens are more frequent, as the words of a text are.
      const double u = uniform[static_cast<std::size_t>(i)];
      token = static_cast<std::int64_t>(u * u * static_cast<double>(c.vocabulary + 2)) - 1;
    }
    tokens.push_back(static_cast<Token>(token));
  }
  return tokens;
}

template <class T, class Token>
void check_gradient(Device device, const Stream& stream, const Case& c, std::int64_t first_token) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::vector<Token> tokens = tokens_of<Token>(c);
  // Odd multiples of 1/64 up to 127/64, which bfloat16 holds. A float holds any sum of 17000 of them, so the
  // sums are exact, and none of them is 0: a row that is left out or counted twice changes a sum.
  std::vector<T> dy = random_values<T>(c.rows * c.columns, 5);
  for (T& value : dy) value = from_double<T>((2 * std::floor(31.5 * to_double(value)) + 1) / 64);
  std::vector<double> sums(static_cast<std::size_t>(c.vocabulary * c.columns), 0.25);
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const auto token = static_cast<std::int64_t>(tokens[static_cast<std::size_t>(row)]) - first_token;
    if (token < 0 || token >= c.vocabulary) continue;
    for (std::int64_t k = 0; k < c.columns; ++k) {
      sums[static_cast<std::size_t>(token * c.columns + k)] +=
          to_double(dy[static_cast<std::size_t>(row * c.columns + k)]);
    }
  }
  const DeviceArray<Token> on_device(device, tokens);
  const DeviceArray<T> gradient(device, dy);
  const DeviceArray<std::int64_t> workspace(device, embedding_workspace(c.rows));
  DeviceArray<A> dweight(device, c.vocabulary * c.columns, A{0.25});
  const EmbeddingProblem problem{.token_dtype = dtype_of<Token>,
                                 .tokens = on_device.data(),
                                 .rows = c.rows,
                                 .sequence = c.rows,
                                 .first_position = 0,
                                 .vocabulary = c.vocabulary,
                                 .columns = c.columns,
                                 .first_token = first_token};
  embedding_backward(stream, dtype_of<T>, problem, gradient.data(), workspace.data(), dweight.data());
  CHECK(worst_error(dweight.doubles(), sums, 0, 1) == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("embedding_backward adds each row to its token", "[embedding]", float, double, bfloat16,
                   float16) {
  using T = TestType;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const Case& c : kCases) {
      INFO(c.rows << " x " << c.columns << ", vocabulary " << c.vocabulary << ", repeats "
                  << static_cast<int>(c.repeats));
      check_gradient<T, std::int32_t>(device, stream, c, 0);
      check_gradient<T, std::int64_t>(device, stream, c, c.vocabulary / 2);
    }
  });
}

TEST_CASE("embedding_backward adds the rows of a token in their order", "[embedding]") {
  // In f32, 2^24 + 1 is 2^24: the ones count only before it.
  on_every_device([](Device device, const Stream& stream) {
    constexpr std::int64_t kRows = 700, kColumns = 8;
    for (const std::int64_t large : {0, 1, 350, 698, 699}) {
      INFO("the large value is in row " << large);
      std::vector<float> dy(kRows * kColumns, 1);
      std::fill_n(dy.begin() + large * kColumns, kColumns, 0x1p24f);
      const DeviceArray<std::int32_t> tokens(device, kRows, 2);
      const DeviceArray<float> gradient(device, dy);
      const DeviceArray<std::int64_t> workspace(device, embedding_workspace(kRows));
      DeviceArray<float> dweight(device, 3 * kColumns);
      const EmbeddingProblem problem{.token_dtype = DType::i32,
                                     .tokens = tokens.data(),
                                     .rows = kRows,
                                     .sequence = kRows,
                                     .first_position = 0,
                                     .vocabulary = 3,
                                     .columns = kColumns};
      embedding_backward(stream, DType::f32, problem, gradient.data(), workspace.data(), dweight.data());
      std::vector<float> expected(3 * kColumns, 0);
      float sum = 0;
      for (std::int64_t row = 0; row < kRows; ++row) sum += dy[static_cast<std::size_t>(row * kColumns)];
      std::fill_n(expected.begin() + 2 * kColumns, kColumns, sum);
      CHECK(dweight.host() == expected);
    }
  });
}

}  // namespace ringtape::test
