#include <cmath>

#include "core/numbers.h"
#include "plot/area_chart.h"
#include "plot/axis.h"
#include "plot/line_chart.h"
#include "plot/plot.h"
#include "tests/support/catch.h"
#include "tests/support/text.h"
#include "tests/support/xml.h"

namespace ringtape::test {
namespace {

using namespace svg;
using Values = std::vector<double>;

Values rounded(Values values) {
  for (double& value : values) value = std::round(value * 1e9) / 1e9;
  return values;
}

Values ticks_of(const Axis& axis, int count = 5) {
  return rounded(ticks(axis, count));
}

}  // namespace

TEST_CASE("the test's XML reader finds what is not well-formed", "[svg]") {
  CHECK(xml_error("<a b=\"1\"><c/>x &amp; y</a>").empty());
  CHECK_THAT(xml_error("<a><b></a>"), ContainsSubstring("</a> closes nothing"));
  CHECK_THAT(xml_error("<a>"), ContainsSubstring("<a> is not closed"));
  CHECK_THAT(xml_error("<a>x & y</a>"), ContainsSubstring("a bare &"));
  CHECK_THAT(xml_error("<a b=\"<\"/>"), ContainsSubstring("a bare <"));
  CHECK_THAT(xml_error("<a b=\"1\" b=\"2\"/>"), ContainsSubstring("two attributes b"));
  CHECK_THAT(xml_error("<a b=1/>"), ContainsSubstring("quoted"));
}

TEST_CASE("numbers are written for people", "[svg]") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(0.0002) == "0.0002");
  CHECK(short_number(0.00003) == "3e-5");
  CHECK(short_number(12.345) == "12.3");
  CHECK(short_number(1500) == "1.5k");
  CHECK(short_number(-1500) == "-1.5k");
  CHECK(short_number(999.96) == "1k");
  CHECK(short_number(999.7, 4) == "999.7");
  CHECK(short_number(2.5e9) == "2.5G");
  CHECK(short_number(3e15) == "3000T");
  CHECK(short_number(NAN) == "nan");
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(std::pow(2, 50)) == "1 PiB");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1024) == "1 KiB");
  CHECK(bytes_text(1024 * 1023) == "1023 KiB");
  CHECK(bytes_text(20.4 * 1024 * 1024) == "20.4 MiB");
  CHECK(time_text(0) == "0 us");
  CHECK(time_text(15e-6) == "15 us");
  CHECK(time_text(0.00231) == "2.31 ms");
  CHECK(time_text(0.99999) == "1 s");
  CHECK(time_text(200) == "3 min 20 s");
  CHECK(grouped(0) == "0");
  CHECK(grouped(-1234567) == "-1,234,567");
}

TEST_CASE("an axis ends on ticks of 1, 2 or 5 times a power of ten", "[svg]") {
  const Axis axis = nice_axis(0.3, 9.2);
  CHECK(axis.low == 0);
  CHECK(axis.high == 10);
  CHECK(ticks_of(axis) == Values{0, 2, 4, 6, 8, 10});
  CHECK(ticks_of(nice_axis(0, 0.3)) == Values{0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3});
  CHECK(ticks_of(nice_axis(-3, 4)) == Values{-3, -2, -1, 0, 1, 2, 3, 4});
  CHECK(ticks_of({3, 47}, 5) == Values{10, 20, 30, 40});
  CHECK(axis.at(0) == 0);
  CHECK(axis.at(2.5) == 0.25);
  CHECK(axis.at(10) == 1);
  CHECK(axis.at(20) == 2);
}

TEST_CASE("an axis of equal or absent values is still one", "[svg]") {
  CHECK(nice_axis(5, 5).at(5) == 0);
  CHECK(nice_axis(5, 5).high == 6);
  CHECK(nice_axis(1e17, 1e17).high > 1e17);
  CHECK(nice_axis(INFINITY, -INFINITY).high == 1);
  CHECK(nice_axis(0, NAN).high == 1);
}

TEST_CASE("a logarithmic axis has whole decades, and more ticks where these are few", "[svg]") {
  const Axis axis = decade_axis(0.03, 700);
  CHECK(std::fabs(axis.low - 0.01) < 1e-12);
  CHECK(axis.high == 1000);
  CHECK(std::fabs(axis.at(std::sqrt(10.0)) - 0.5) < 1e-12);  // the middle between 10^-2 and 10^3
  CHECK(ticks_of(axis) == Values{0.01, 0.1, 1, 10, 100, 1000});
  CHECK(ticks_of(decade_axis(2, 3)) == Values{1, 2, 5, 10});
  CHECK(decade_axis(10, 10).high == 100);
  const Axis close = logarithmic_axis(0.12, 2.3);  // from 0.1 to 5
  CHECK(ticks_of(close) == Values{0.1, 0.2, 0.5, 1, 2, 5});
  CHECK(std::fabs(close.at(5) - 1) < 1e-9);
  CHECK(ticks(decade_axis(1e-12, 1e12)).size() <= 9);
}

TEST_CASE("text in a picture is escaped", "[svg]") {
  CHECK(escape("<a & \"b\" 'c'>\x01") == "&lt;a &amp; &quot;b&quot; &#39;c&#39;&gt;?");
  Canvas canvas(100, 50, "a \"title\" <x>");
  canvas.text(1, 2, "<script>");
  canvas.circle(1, 2, 3, "s0", "tip & <tip>");
  CHECK(xml_error(canvas.element()) == "");
  CHECK(xml_error(canvas.file()) == "");
  CHECK(count(canvas.file(), "<script>") == 0);
}

TEST_CASE("coordinates have one digit after the point at most", "[svg]") {
  CHECK(coordinate(1) == "1");
  CHECK(coordinate(1.25) == "1.2");
  CHECK(coordinate(-0.01) == "0");
  CHECK(coordinate(-2.96) == "-3");
}

TEST_CASE("a plot places values by its axes", "[svg]") {
  const Plot plot({.width = 480,
                   .height = 260,
                   .x = {0, 10},
                   .y = {0, 4},
                   .x_name = "step",
                   .y_name = "loss",
                   .title = "t",
                   .legend = {}});
  CHECK(plot.x(0) == plot.left());
  CHECK(plot.x(10) == plot.right());
  CHECK(std::fabs(plot.x(5) - (plot.left() + plot.right()) / 2) < 1e-9);
  CHECK(plot.y(0) == plot.bottom());
  CHECK(plot.y(4) == plot.top());
  CHECK(std::fabs(plot.y(1) - (plot.bottom() - (plot.bottom() - plot.top()) / 4)) < 1e-9);
  CHECK(plot.right() <= 480);
  CHECK(plot.bottom() <= 260);
}

TEST_CASE("groups of points have the mean, the smallest and the largest of their finite values", "[svg]") {
  const std::vector<Point> points = {{1, 1}, {2, 3}, {3, NAN}, {4, 8}, {5, NAN}, {6, INFINITY}};
  const std::vector<Group> groups = group_points(points, 3);
  REQUIRE(groups.size() == 3);
  CHECK((groups[0].x == 1.5 && groups[0].mean == 2 && groups[0].low == 1 && groups[0].high == 3));
  CHECK((groups[1].x == 3.5 && groups[1].mean == 8 && groups[1].low == 8 && groups[1].high == 8));
  CHECK(std::isnan(groups[2].mean));
  CHECK(group_points(points, 100).size() == 6);
  CHECK(group_points({}, 100).empty());
}

TEST_CASE("a line goes through its points and stops where a value is not a number", "[svg]") {
  const LineChart chart{.title = "loss", .x_name = "step", .y_name = "", .from_zero = true};
  const Series series[] = {{"loss", {{0, 0}, {1, 5}, {2, NAN}, {3, 10}, {4, 5}}}};
  const std::string svg = line_chart(chart, series).element();
  CHECK(xml_error(svg) == "");
  const Plot plot({.width = chart.width,
                   .height = chart.height,
                   .x = {0, 4},
                   .y = nice_axis(0, 10),
                   .x_name = "step",
                   .y_name = "",
                   .title = "loss",
                   .legend = {}});
  const auto at = [&](char command, double x, double y) {
    return fmt::format("{}{} {}", command, coordinate(plot.x(x)), coordinate(plot.y(y)));
  };
  CHECK_THAT(svg, ContainsSubstring("d=\"" + at('M', 0, 0) + at('L', 1, 5) + at('M', 3, 10) + at('L', 4, 5) +
                                    "\" class=\"line l0\""));
  CHECK(count(svg, "<circle") == 0);
  // Lines of one point would be invisible.
  const Series points[] = {{"loss", {{0, 5}, {1, NAN}, {2, 10}, {3, 5}, {4, NAN}, {5, 0}}}};
  CHECK(count(line_chart(chart, points).element(), "<circle") == 2);
}

TEST_CASE("with logarithmic axes equal factors are equal distances", "[svg]") {
  const LineChart chart{.title = "error", .x_name = "rate", .y_name = "", .log_log = true};
  const Series series[] = {{"error", {{0.01, 50}, {0.1, 10}, {1, 5}}}};
  const std::string svg = line_chart(chart, series).element();
  CHECK(xml_error(svg) == "");
  const Plot plot({.width = chart.width,
                   .height = chart.height,
                   .x = logarithmic_axis(0.01, 1),
                   .y = logarithmic_axis(5, 50),
                   .x_name = "rate",
                   .y_name = "",
                   .title = "error",
                   .legend = {}});
  const auto at = [&](char command, double x, double y) {  // from 0 to 1 along the axes
    return fmt::format("{}{} {}", command, coordinate(plot.left() + x * (plot.right() - plot.left())),
                       coordinate(plot.bottom() + y * (plot.top() - plot.bottom())));
  };
  const double middle = std::log(10.0 / 5) / std::log(50.0 / 5);
  CHECK_THAT(svg, ContainsSubstring("d=\"" + at('M', 0, 1) + at('L', 0.5, middle) + at('L', 1, 0) +
                                    "\" class=\"line l0\""));
}

TEST_CASE("charts of nothing, of one point and of values that are not numbers can be drawn", "[svg]") {
  const LineChart chart{.title = "loss", .x_name = "step", .y_name = "loss"};
  const std::vector<std::vector<Series>> cases = {
      {}, {{"a", {}}}, {{"a", {{1, 2}}}}, {{"a", {{1, NAN}, {2, INFINITY}}}}, {{"a", {{1, 0}, {2, 0}}}}};
  for (const std::vector<Series>& series : cases) {
    const std::string svg = line_chart(chart, series).file();
    CHECK(xml_error(svg) == "");
    CHECK(count(svg, "nan") == 0);
    CHECK(count(svg, "inf") == 0);
  }
  CHECK(count(line_chart(chart, cases[2]).element(), "<circle") ==
        1);  // a line of one point would be invisible
  const std::string of_nine = line_chart(chart, std::vector<Series>(9, {"a", {{1, 2}, {2, 3}}})).element();
  CHECK(count(of_nine, "s0") == 2 * count(of_nine, "s1"));  // the colours begin again, in the legend too
  CHECK(count(of_nine, "s8") == 0);
  const std::string nothing =
      area_chart({.title = "t", .x_name = "ms", .y_name = "MiB"}, {}, 0, {}, "").file();
  CHECK(xml_error(nothing) == "");
  CHECK(count(nothing, "nan") == 0);
}

TEST_CASE("many points become a line with a band, however many there are", "[svg]") {
  std::vector<Point> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), 2.0 + i % 2});
  const Series series[] = {{"a", points}};
  const std::string svg = line_chart({.title = "t", .x_name = "x", .y_name = "y"}, series).element();
  CHECK(count(svg, "class=\"band s0\"") == 1);
  CHECK(svg.size() < 20000);
}

TEST_CASE("a loss that spans more than a factor of 20 has a logarithmic axis", "[svg]") {
  const auto labels = [](double last) {
    const Series series[] = {{"a", {{0, 1}, {1, last}}}};
    return line_chart({.title = "t", .x_name = "x", .y_name = "y"}, series).element();
  };
  CHECK_THAT(labels(0.001), ContainsSubstring(">0.01</text>") && ContainsSubstring(">0.1</text>"));
  CHECK_THAT(labels(0.5), !ContainsSubstring(">0.01</text>"));
}

TEST_CASE("areas are stacked as steps, and the highest moment is marked", "[svg]") {
  const Values moments = {0, 1, 3};
  const Area areas[] = {{"low", 0, {2, 2, 2}}, {"high", 1, {0, 6, 1}}};
  const AreaChart chart{.title = "t", .x_name = "ms", .y_name = "MiB"};
  const std::string svg = area_chart(chart, moments, 4, areas, "peak 8").element();
  CHECK(xml_error(svg) == "");
  const Plot plot({.width = chart.width,
                   .height = chart.height,
                   .x = {0, 4},
                   .y = nice_axis(0, 8 * 1.08),
                   .x_name = "ms",
                   .y_name = "MiB",
                   .title = "t",
                   .legend = {{"low", 0}, {"high", 1}}});
  const auto c = coordinate;
  // The lower area is flat, so that it is one rectangle; the upper one ends at the sums.
  CHECK_THAT(svg, ContainsSubstring(fmt::format("H{}V{}H{}V{}Z\" class=\"s0\"", c(plot.x(0)), c(plot.y(2)),
                                                c(plot.x(4)), c(plot.bottom()))));
  CHECK_THAT(svg, ContainsSubstring(fmt::format("H{}V{}H{}V{}H{}V{}H{}V{}Z\" class=\"s1\"", c(plot.x(0)),
                                                c(plot.y(2)), c(plot.x(1)), c(plot.y(8)), c(plot.x(3)),
                                                c(plot.y(3)), c(plot.x(4)), c(plot.bottom()))));
  CHECK_THAT(svg, ContainsSubstring(fmt::format("<circle cx=\"{}\" cy=\"{}\"", c(plot.x(1)), c(plot.y(8)))) &&
                      ContainsSubstring(">peak 8</text>"));
}

}  // namespace ringtape::test
