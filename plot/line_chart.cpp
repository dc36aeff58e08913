#include "plot/line_chart.h"

#include <algorithm>
#include <cmath>

#include "core/numbers.h"
#include "plot/plot.h"

namespace ringtape::svg {
namespace {

struct Range {
  double low = INFINITY, high = -INFINITY;

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
};

Axis vertical_axis(const LineChart& chart, Range values) {
  if (values.is_empty()) return {};
  const bool spans_much = values.low > 0 && values.high > 20 * values.low;
  if (chart.log_log || (!chart.from_zero && spans_much)) return logarithmic_axis(values.low, values.high);
  if (chart.from_zero) values.low = std::min(values.low, 0.0);
  if (values.low == values.high) values.high = values.low + std::max(std::fabs(values.low), 1e-12);
  return nice_axis(values.low, values.high);
}

std::string move_or_line(bool begins, double x, double y) {
  return fmt::format("{}{} {}", begins ? 'M' : 'L', coordinate(x), coordinate(y));
}

void draw_band(Plot& plot, std::span<const Group> groups, int colour) {
  std::string path;
  for (std::size_t first = 0; first < groups.size();) {
    if (std::isnan(groups[first].mean)) {
      ++first;
      continue;
    }
    std::size_t end = first;
    for (; end < groups.size() && !std::isnan(groups[end].mean); ++end) {
      path += move_or_line(end == first, plot.x(groups[end].x), plot.y(groups[end].high));
    }
    for (std::size_t i = end; i-- > first;) {
      path += move_or_line(false, plot.x(groups[i].x), plot.y(groups[i].low));
    }
    path += 'Z';
    first = end;
  }
  if (!path.empty()) plot.canvas().path(path, fmt::format("band s{}", colour));
}

void draw_line(Plot& plot, const Series& series, int colour) {
  const std::vector<Group> groups = group_points(series.points, kMaxGroups);
  if (groups.size() < series.points.size()) draw_band(plot, groups, colour);
  std::string path;
  const auto is_gap = [&](std::size_t i) { return i >= groups.size() || std::isnan(groups[i].mean); };
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (is_gap(i)) continue;
    const double x = plot.x(groups[i].x), y = plot.y(groups[i].mean);
    const bool begins = i == 0 || is_gap(i - 1);
    path += move_or_line(begins, x, y);
    // A line of one point would not be seen.
    if (begins && is_gap(i + 1)) plot.canvas().circle(x, y, 3.5, fmt::format("dot s{}", colour));
  }
  if (!path.empty()) plot.canvas().path(path, fmt::format("line l{}", colour));
}

void draw_dots(Plot& plot, const Series& series, int colour) {
  for (const auto& [x, y] : series.points) {
    if (!std::isfinite(y)) continue;
    plot.canvas().circle(plot.x(x), plot.y(y), 4.5, fmt::format("dot s{}", colour),
                         fmt::format("{} {}", series.name, short_number(y, 4)));
  }
}

}  // namespace

std::vector<Group> group_points(std::span<const Point> points, std::size_t most) {
  const std::size_t count = std::min(points.size(), most);
  std::vector<Group> groups;
  for (std::size_t g = 0; g < count; ++g) {
    const std::size_t first = g * points.size() / count, end = (g + 1) * points.size() / count;
    Range range;
    double sum_x = 0, sum_y = 0;
    std::size_t finite = 0;
    for (const Point& point : points.subspan(first, end - first)) {
      sum_x += point.x;
      range.add(point.y);
      if (!std::isfinite(point.y)) continue;
      sum_y += point.y;
      ++finite;
    }
    const double mean = finite > 0 ? sum_y / static_cast<double>(finite) : std::nan("");
    groups.push_back({sum_x / static_cast<double>(end - first), mean, range.low, range.high});
  }
  return groups;
}

Canvas line_chart(const LineChart& chart, std::span<const Series> series) {
  const auto colour_of = [](std::size_t number) { return static_cast<int>(number) % kColours; };
  Range xs, ys;
  PlotFrame frame{.width = chart.width,
                  .height = chart.height,
                  .x = {},
                  .y = {},
                  .x_name = chart.x_name,
                  .y_name = chart.y_name,
                  .title = chart.title,
                  .legend = {}};
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series.size() > 1) frame.legend.emplace_back(series[i].name, colour_of(i));
    for (const Point& point : series[i].points) {
      xs.add(point.x);
      ys.add(point.y);
    }
  }
  frame.y = vertical_axis(chart, ys);
  if (!xs.is_empty() && chart.log_log) {
    frame.x = logarithmic_axis(xs.low, xs.high);
  } else if (!xs.is_empty()) {
    frame.x = {xs.low, std::max(xs.high, xs.low + 1)};
  }
  Plot plot(frame);
  for (std::size_t i = 0; i < series.size(); ++i) {
    series[i].as_dots ? draw_dots(plot, series[i], colour_of(i)) : draw_line(plot, series[i], colour_of(i));
  }
  return plot.canvas();
}

}  // namespace ringtape::svg
