#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/numbers.h"
#include "planner/memory.h"
#include "planner/numbers.h"
#include "planner/scale.h"

namespace ringtape::planner {
namespace {

constexpr double kWidth = 300, kHeight = 260, kLeft = 74, kTop = 56, kGap = 104;  // of a panel, in pixels
constexpr std::int64_t kPlaybook = 512;
// Line styles: the requested variant, larger buckets, and two other algorithms.
constexpr const char* kStyles[] = {
    "stroke=\"#1f5fa8\" stroke-width=\"3\"", "stroke=\"#1f5fa8\" stroke-width=\"2\" stroke-dasharray=\"7 4\"",
    "stroke=\"#2e8b57\" stroke-width=\"2\"", "stroke=\"#d9822b\" stroke-width=\"2\""};
constexpr const char* kIdealStyle = "stroke=\"#a0a8b0\" stroke-dasharray=\"3 4\"";
constexpr const char* kPlaybookStyle = "stroke=\"#808890\" stroke-dasharray=\"2 3\"";

struct Axis {
  double low, high;
  bool logarithmic;

  /// 0 at the low end, 1 at the high one.
  double at(double value) const {
    if (!logarithmic) return (value - low) / (high - low);
    return std::log10(value / low) / std::log10(high / low);
  }
};

struct Panel {
  std::string title;
  Axis x, y;
  double left;

  double px(double x_value) const { return left + kWidth * x.at(x_value); }
  double py(double y_value) const { return kTop + kHeight * (1 - y.at(y_value)); }
};

struct Series {
  const ScaleVariant* variant;
  const char* style;
};

/// Whole powers of ten around the values, at least one apart.
Axis decades(double low, double high) {
  const double first = std::floor(std::log10(low) + 1e-9);
  const double last = std::max(std::ceil(std::log10(high) - 1e-9), first + 1);
  return {std::pow(10, first), std::pow(10, last), true};
}

std::vector<double> ticks(const Axis& axis) {
  std::vector<double> values;
  if (!axis.logarithmic) {
    for (int i = 0; i <= 5; ++i) values.push_back(axis.low + (axis.high - axis.low) * i / 5);
    return values;
  }
  const double count = std::log10(axis.high / axis.low);
  const int every = count > 8 ? 2 : 1;
  for (int i = 0; i <= std::lround(count); i += every) values.push_back(axis.low * std::pow(10, i));
  return values;
}

bool shows_playbook(const Panel& panel) {
  return panel.x.low <= kPlaybook && kPlaybook <= panel.x.high;
}

std::string grid(const Panel& panel) {
  std::string svg = fmt::format("<text class=\"title\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", panel.left,
                                kTop - 16, panel.title);
  for (double value : ticks(panel.x)) {
    const double x = panel.px(value);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        x, kTop, kTop + kHeight, kTop + kHeight + 18, short_number(value, 4));
  }
  for (double value : ticks(panel.y)) {
    const double y = panel.py(value);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\"/>\n"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        panel.left, y, panel.left + kWidth, panel.left - 6, y + 4, short_number(value, 4));
  }
  svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#606870\"/>\n"
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">ranks</text>\n",
      panel.left, kTop, kWidth, kHeight, panel.left + kWidth / 2, kTop + kHeight + 38);
  if (shows_playbook(panel)) {
    svg += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" {3}/>\n",
                       panel.px(kPlaybook), kTop, kTop + kHeight, kPlaybookStyle);
  }
  return svg;
}

/// A line through the points whose values the panel shows; on a logarithmic axis there is no 0.
std::string line(const Panel& panel, const ScaleVariant& variant, const std::string& style,
                 const std::function<double(const ScalePoint&)>& value) {
  std::string points;
  for (const ScalePoint& point : variant.points) {
    const double y = value(point);
    if (y >= panel.y.low && y <= panel.y.high) {
      points += fmt::format("{:.1f},{:.1f} ", panel.px(static_cast<double>(point.ranks)), panel.py(y));
    }
  }
  return points.empty() ? "" : fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", points, style);
}

double throughput_of(const ScalePoint& point) {
  return point.throughput;
}

/// Rounding the batch up to whole micro-batches can make it a little more than 100.
double efficiency_percent(const ScalePoint& point) {
  return std::min(point.efficiency * 100, 100.0);
}

double exposed_milliseconds(const ScalePoint& point) {
  return point.times.exposed * 1e3;
}

struct Panels {
  Panel throughput, efficiency, exposed;
};

Panels panels_of(const std::vector<Series>& series, double one_rank) {
  double fastest = 0, slowest = INFINITY, most_exposed = 0.1;
  for (const Series& s : series) {
    for (const ScalePoint& point : s.variant->points) {
      fastest = std::max(fastest, one_rank * static_cast<double>(point.ranks));
      slowest = std::min(slowest, point.throughput);
      most_exposed = std::max(most_exposed, exposed_milliseconds(point));
    }
  }
  const std::vector<ScalePoint>& points = series[0].variant->points;
  const Axis ranks =
      decades(static_cast<double>(points.front().ranks), static_cast<double>(points.back().ranks));
  const auto left = [](int panel) { return kLeft + panel * (kWidth + kGap); };
  return {{"throughput, samples a second", ranks, decades(slowest, fastest), left(0)},
          {"efficiency, percent", ranks, {0, 100, false}, left(1)},
          {"exposed communication, ms a step", ranks, decades(0.1, most_exposed * 1.01), left(2)}};
}

std::string legend(const std::vector<Series>& series, bool has_playbook) {
  std::string svg;
  double x = kLeft, y = kTop + kHeight + 72;
  const auto key = [&](const std::string& style, const std::string& name) {
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        x, y - 4, x + 36, y - 4, style, x + 44, y, name);
    x += 240;
  };
  for (const Series& s : series) {
    key(s.style, fmt::format("{}, {} buckets", name_of(s.variant->algorithm), bytes_text(s.variant->bucket)));
  }
  x = kLeft;
  y += 24;
  key(kIdealStyle, "one rank's, times the ranks");
  if (has_playbook) key(kPlaybookStyle, fmt::format("{} ranks: the Ultra-Scale Playbook", kPlaybook));
  return svg;
}

}  // namespace

std::string scale_svg(const ScalePlan& plan) {
  std::vector<Series> series = {{&plan.asked, kStyles[0]}};
  for (std::size_t i = 0; i < plan.others.size(); ++i) series.push_back({&plan.others[i], kStyles[i + 1]});
  const ScalePoint& first = plan.asked.points.front();
  const double one_rank = first.throughput / (first.efficiency * static_cast<double>(first.ranks));
  const auto [throughput, efficiency, exposed] = panels_of(series, one_rank);

  const double width = exposed.left + kWidth + 30, height = kTop + kHeight + 116;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<style>text {{ font: 12px sans-serif; fill: #303840; }} "
      ".title {{ font-size: 14px; font-weight: bold; }} .grid {{ stroke: #e2e6ea; }}</style>\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
      width, height);
  for (const Panel& panel : {throughput, efficiency, exposed}) svg += grid(panel);
  ScaleVariant ideal = plan.asked;
  for (ScalePoint& point : ideal.points) point.throughput = one_rank * static_cast<double>(point.ranks);
  svg += line(throughput, ideal, kIdealStyle, throughput_of);
  for (const Series& s : series) {
    svg += line(throughput, *s.variant, s.style, throughput_of);
    svg += line(efficiency, *s.variant, s.style, efficiency_percent);
    svg += line(exposed, *s.variant, s.style, exposed_milliseconds);
  }
  return svg + legend(series, shows_playbook(throughput)) + "</svg>\n";
}

}  // namespace ringtape::planner
