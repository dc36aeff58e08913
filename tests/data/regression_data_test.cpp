#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/philox.h"
#include "data/csv.h"
#include "data/regression.h"
#include "tests/support/catch.h"
#include "tests/support/gzip_text.h"
#include "tests/support/temporary_folder.h"

using namespace ringtape;

TEST_CASE("friedman1: rows follow the documented formula", "[regression]") {
  const TensorDataset table = make_friedman1(50, 7, 0.5);
  REQUIRE(table.all_features().shape() == Shape{50, 10});
  REQUIRE(table.all_targets().shape() == Shape{50, 1});
  const std::vector<float> x = table.all_features().to_vector<float>();
  const std::vector<float> y = table.all_targets().to_vector<float>();
  for (std::uint64_t row = 0; row < 50; ++row) {
    const on_cpu::Philox4 first = on_cpu::philox4x32_10(7, 4 * row, std::uint64_t{1} << 62);
    const on_cpu::Philox4 second = on_cpu::philox4x32_10(7, 4 * row + 1, std::uint64_t{1} << 62);
    const on_cpu::Philox4 last = on_cpu::philox4x32_10(7, 4 * row + 3, std::uint64_t{1} << 62);
    const auto unit = [](std::uint32_t bits) { return std::ldexp(bits >> 8, -24); };
    CHECK(x[10 * row] == unit(first.x));
    CHECK(x[10 * row + 3] == unit(first.w));
    CHECK(x[10 * row + 4] == unit(second.x));
    const double z = std::sqrt(-2 * std::log(std::ldexp(last.x + 1.0, -32))) *
                     std::cos(2 * std::numbers::pi * std::ldexp(last.y, -32));
    const double expected = 10 * std::sin(std::numbers::pi * unit(first.x) * unit(first.y)) +
                            20 * std::pow(unit(first.z) - 0.5, 2) + 10 * unit(first.w) + 5 * unit(second.x) +
                            0.5 * z;
    CHECK(y[row] == Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("friedman1: a row depends on seed and number alone; the moments are right", "[regression]") {
  const std::int64_t n = 200'000;
  const std::vector<float> noisy = make_friedman1(n, 3, 2.0).all_targets().to_vector<float>();
  const std::vector<float> clean = make_friedman1(n, 3, 0.0).all_targets().to_vector<float>();
  CHECK(make_friedman1(10, 3, 2.0).all_targets().to_vector<float>() ==
        std::vector<float>(noisy.begin(), noisy.begin() + 10));
  CHECK(make_friedman1(10, 4, 2.0).all_targets().to_vector<float>() !=
        std::vector<float>(noisy.begin(), noisy.begin() + 10));

  double noise = 0;
  double noise_squares = 0;
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const double z = noisy[i] - clean[i];
    noise += z;
    noise_squares += z * z;
    sum += clean[i];
    squares += double{clean[i]} * clean[i];
  }
  // Margins of 4 standard errors: 2 / sqrt(n) for the noise's mean, 4 sqrt(2 / n) for its variance.
  CHECK(noise / n == Approx(0).margin(0.018));
  CHECK(noise_squares / n == Approx(4).margin(0.051));
  CHECK(squares / n - (sum / n) * (sum / n) == Approx(23.8).margin(0.3));
}

TEST_CASE("friedman1: arguments that make no sense", "[regression]") {
  CHECK_THROWS_WITH(make_friedman1(0, 1), ContainsSubstring("0 samples, expected at least 1"));
  CHECK_THROWS_WITH(make_friedman1(5, 1, -1), ContainsSubstring("noise -1, expected 0 or more"));
  CHECK_THROWS_WITH(make_friedman1(5, 1, NAN), ContainsSubstring("noise nan"));
}

TEST_CASE("csv: tables with and without names", "[csv]") {
  for (const char* text :
       {"1,2,3\n4,5,6\n", "1,2,3\n4,5,6", "a, b ,y\n1,2,3\n4,5,6\n", ",b,y\n1,2,3\n4,5,6\n",
        "1 ,\t2,3\r\n4,5.0,0.6e1\r\n",
        "\xEF\xBB\xBF"
        "1,2,3\n4,5,6\n",
        "1,2,3\n4,5,6\n\n \r\n", "+1,2,+3e0\n4,5,6\n", "\"1\",2,\"3\"\n\"4\" , \" 5\",\"+6\"\r\n",
        "\"a, b\",\"two\nlines\",\"say \"\"y\"\"\"\n1,2,3\n4,5,6"}) {
    INFO(text);
    const TensorDataset table = parse_csv(text, "FILE");
    CHECK(table.all_features().shape() == Shape{2, 2});
    CHECK(table.all_targets().shape() == Shape{2, 1});
    CHECK(table.all_features().to_vector<float>() == std::vector<float>{1, 2, 4, 5});
    CHECK(table.all_targets().to_vector<float>() == std::vector<float>{3, 6});
  }
  const TemporaryFolder folder;
  CHECK(read_csv(write_text(folder / "x.csv", "-1.5e-3,1e-50,-1e-400\n")).all_features().to_vector<float>() ==
        std::vector<float>{-1.5e-3f, 0});
  const TensorDataset exact = parse_csv("1.7e9,1\n1700000001,0.1\n", "FILE", DType::f64);
  CHECK(exact.all_features().to_vector<double>() == std::vector<double>{1700000000, 1700000001});
  CHECK(exact.all_targets().to_vector<double>() == std::vector<double>{1, 0.1});
  CHECK_THROWS_WITH(parse_csv("1,2\n", "FILE", DType::i32),
                    ContainsSubstring("dtype i32, expected f32 or f64"));
  std::string rows;
  for (int i = 0; i < 100000; ++i) rows += "1,2,3\n";  // packs 1,000 times
  const TensorDataset packed = read_csv(write_text(folder / "x.csv.gz", gzip_text(rows)));
  CHECK(packed.size() == 100000);
  CHECK_THROWS_WITH(read_csv(write_text(folder / "y.csv.gz", gzip_text(rows).substr(0, 50))),
                    ContainsSubstring("y.csv.gz: the gzip data is truncated"));
}

TEST_CASE("csv: tables with mistakes", "[csv]") {
  const struct {
    const char* text;
    const char* error;
  } bad_files[] = {
      {"", "has no rows of numbers"},
      {"a,b\n", "has no rows of numbers"},
      {"1\n2\n", "line 1 has a single column"},
      {"\n1,2\n", "line 1 has a single column"},
      {"1,2\n1,2,3\n", "line 2 has 3 fields, expected 2 as in line 1"},
      {"1,2\n\n1,2\n", "line 2 has 1 field, expected 2"},
      {"1;2\n", "line 1 has a single column"},
      {"1,,2\n", "line 1, column 2: '' is not a number"},
      {",2,3\n4,5,6\n", "line 1, column 1: '' is not a number"},
      {"x,2,3\n4,5,6\n", "line 1, column 1: 'x' is not a number"},
      {"a,,y\n4,5,6\n", "line 1, column 1: 'a' is not a number"},
      {"1,x\n", "line 1, column 2: 'x' is not a number"},
      {"a,b\n1,2\n3,4x\n", "line 3, column 2: '4x' is not a number"},
      {"1,2\n3,\n", "line 2, column 2: '' is not a number"},
      {"1,2\n+-3,4\n", "line 2, column 1: '+-3' is not a number"},
      {"1,2\n++3,4\n", "line 2, column 1: '++3' is not a number"},
      {"1,2\n\"3,4\n", "line 2, column 1: a quote is not closed"},
      {"1,2\n\"3\"5,4\n", "line 2, column 1: text follows a quoted field, expected a comma"},
      {"1,2\n3\"5\",4\n", "line 2, column 1: '3\"5\"' is not a number"},
      {"\"a\nb\",c\n1,2\n3,x\n", "line 4, column 2: 'x' is not a number"},
      {"1,2\n0x1p3,4\n", "line 2, column 1: '0x1p3' is not a number"},
      {"1,2\nnan,4\n", "line 2, column 1: 'nan' is not a finite number"},
      {"1,2\n3,-inf\n", "line 2, column 2: '-inf' is not a finite number"},
      {"1,2\n1e39,2\n", "line 2, column 1: '1e39' is not a finite number in the range of f32"},
      {"1,2\n1,1e999\n", "line 2, column 2: '1e999' is not a finite number in the range of f32"},
      {"a,b\n1,2\n3,\x01\n", "line 3, column 2: '\\x01' is not a number"},
  };
  for (const auto& bad : bad_files) {
    INFO(bad.text);
    CHECK_THROWS_WITH(parse_csv(bad.text, "FILE"),
                      ContainsSubstring(bad.error) && ContainsSubstring("FILE: "));
  }
  CHECK_THROWS_WITH(read_csv("/nonexistent.csv"), ContainsSubstring("/nonexistent.csv: cannot open"));
}
