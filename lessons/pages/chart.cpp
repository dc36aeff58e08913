// Draws a line chart of the lessons' pages: JSON on standard input, an SVG file on standard output. So
// the library's plot/ draws all charts, also where a page shows the results of several programs.
#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <vector>

#include "cli/command_line.h"
#include "core/error.h"
#include "io/json.h"
#include "plot/line_chart.h"

namespace ringtape {
namespace {

svg::Series series_of(const Json& json) {
  svg::Series series{json.at("name").as_string(), {}, json.at("dots").as_bool()};
  for (const Json& point : json.at("points").as_array()) {
    const Json::Array& xy = point.as_array();
    check(xy.size() == 2, "chart: a point has x and y, found {} numbers", xy.size());
    series.points.push_back({xy[0].as_double(), xy[1].as_double()});
  }
  return series;
}

void draw() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const Json json = Json::parse(text, "standard input");
  const svg::LineChart chart{.title = json.at("title").as_string(),
                             .x_name = json.at("x").as_string(),
                             .y_name = json.at("y").as_string(),
                             .from_zero = json.at("from_zero").as_bool(),
                             .log_log = json.at("log_log").as_bool()};
  std::vector<svg::Series> series;
  for (const Json& one : json.at("series").as_array()) series.push_back(series_of(one));
  fmt::print("{}", svg::line_chart(chart, series).file());
}

}  // namespace
}  // namespace ringtape

int main(int argc, char** argv) {
  ringtape::CommandLine app(
      "Draws {\"title\", \"x\", \"y\", \"from_zero\", \"log_log\", \"series\": [{\"name\", \"dots\", "
      "\"points\": [[x, y], "
      "...]}]} as SVG.");
  return app.run(argc, argv, [] { ringtape::draw(); });
}
