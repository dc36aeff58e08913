#include "plot/terminal_chart.h"

#include <cmath>
#include <cstdlib>

#include "tests/support/catch.h"
#include "tests/support/text.h"

namespace ringtape::test {
namespace {

std::vector<double> falling(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(count - i);
  return values;
}

/// Unsets the variables that describe the terminal, and restores them at its end.
class Variables {
 public:
  Variables() {
    for (const char* name : kNames) {
      const char* const value = std::getenv(name);
      saved_.emplace_back(value == nullptr ? "" : value);
      unsetenv(name);
    }
  }
  ~Variables() {
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      saved_[i].empty() ? unsetenv(kNames[i]) : setenv(kNames[i], saved_[i].c_str(), 1);
    }
  }

 private:
  static constexpr const char* kNames[] = {"COLUMNS", "LC_ALL", "LC_CTYPE", "LANG"};
  std::vector<std::string> saved_;
};

}  // namespace

TEST_CASE("a chart for a terminal has a plain form without UTF-8", "[plot]") {
  CHECK(lines_of(line_chart({3, 2, 1}, {80, false}, 3, ChartScale::linear)) ==
        std::vector<std::string>{"        3 |*", "        2 | *", "        1 |  *"});
  // With UTF-8 each line has four places for a dot. Of 3 x 4 places these are the first, the seventh (5.5
  // rounded up) and the last.
  CHECK(lines_of(line_chart({3, 2, 1}, {80, true}, 3, ChartScale::linear)) ==
        std::vector<std::string>{"        3 |\u2809", "        2 | \u2824", "        1 |  \u28C0"});
}

TEST_CASE("a chart of small values is as high as one of large ones, and one of equal values is flat",
          "[plot]") {
  CHECK(lines_of(line_chart({3e-12, 2e-12, 1e-12}, {80, false}, 3, ChartScale::linear)) ==
        std::vector<std::string>{"    3e-12 |*", "    2e-12 | *", "    1e-12 |  *"});
  for (const double value : {0.0, 1e-12, 1.0, 1e12}) {
    const std::vector<std::string> lines =
        lines_of(line_chart({value, value * (1 + 1e-15), value}, {80, false}, 3, ChartScale::linear));
    CHECK_THAT(lines.at(2), Catch::Matchers::EndsWith("|***"));
  }
}

TEST_CASE("a chart is no wider than the terminal, and at most 72 columns besides its axis", "[plot]") {
  for (const bool has_utf8 : {false, true}) {
    for (const auto& [columns, widest] :
         {std::pair{20, 20}, {40, 40}, {80, 80}, {83, 83}, {200, 83}, {1, 20}}) {
      int found = 0;
      for (const std::string& line : lines_of(line_chart(falling(1000), {columns, has_utf8}, 10))) {
        found = std::max(found, width_of(line));
      }
      CHECK(found == widest);
    }
  }
}

TEST_CASE("values that share a column are averaged, and those that are not finite left out", "[plot]") {
  std::vector<double> values(9, 1.0);
  values.insert(values.end(), {3, 5});  // 11 values in 9 columns: the last has these two
  CHECK_THAT(line_chart(values, {20, false}, 2, ChartScale::linear),
             Catch::Matchers::StartsWith("        4 |        *\n"));
  CHECK(line_chart({2, NAN, 1}, {80, false}, 2, ChartScale::linear) == "        2 |*\n        1 |  *\n");
  CHECK(line_chart({NAN, INFINITY}, {80, false}, 2) == "");
  CHECK(line_chart({1}, {80, false}, 2) == "");
}

TEST_CASE("the terminal's width and UTF-8 follow its variables", "[plot]") {
  const Variables variables;
  CHECK(!standard_output().has_utf8);
  setenv("LANG", "de_DE.UTF-8", 1);
  CHECK(standard_output().has_utf8);
  setenv("LC_CTYPE", "C", 1);
  CHECK(!standard_output().has_utf8);
  setenv("LC_ALL", "C.utf8", 1);
  CHECK(standard_output().has_utf8);
  setenv("COLUMNS", "57", 1);
  CHECK(standard_output().columns == 57);
  for (const char* bad : {"", "0", "-3", "x", "57x", "99999999999"}) {
    setenv("COLUMNS", bad, 1);
    CHECK(standard_output().columns > 0);
    CHECK(standard_output().columns != 57);
  }
}

}  // namespace ringtape::test
