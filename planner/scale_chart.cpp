#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/numbers.h"
#include "planner/scale.h"
#include "plot/plot.h"

namespace ringtape::planner {
namespace {

constexpr double kPanelWidth = 400, kPanelHeight = 350, kRow = 24;
constexpr std::int64_t kPlaybook = 512;
// Line styles: the requested variant, larger buckets, and two other algorithms.
constexpr const char* kStyles[] = {"line l0", "line l0 dashed", "line l2", "line l1"};
constexpr const char* kIdealStyle = "line l7 dashed";
constexpr const char* kPlaybookStyle = "axis dashed";

struct Series {
  const ScaleVariant* variant;
  const char* style;
};

/// A chart of a value over the number of ranks.
struct Panel {
  svg::Axis x, y;
  svg::Plot plot;

  Panel(const std::string& title, const svg::Axis& ranks, const svg::Axis& values)
      : x(ranks),
        y(values),
        plot({.width = kPanelWidth,
              .height = kPanelHeight,
              .x = ranks,
              .y = values,
              .x_name = "ranks",
              .y_name = title,
              .title = title,
              .legend = {}}) {}

  bool shows_playbook() const { return x.low <= kPlaybook && kPlaybook <= x.high; }

  void draw_playbook() {
    const double at = plot.x(kPlaybook);
    if (shows_playbook()) plot.canvas().line(at, plot.top(), at, plot.bottom(), kPlaybookStyle);
  }

  /// A line through the points whose values the panel shows; on a logarithmic axis there is no 0.
  void draw(const ScaleVariant& variant, const char* style,
            const std::function<double(const ScalePoint&)>& value) {
    std::vector<std::pair<double, double>> shown;
    for (const ScalePoint& point : variant.points) {
      const double at = value(point);
      if (at < y.low || at > y.high) continue;
      shown.emplace_back(plot.x(static_cast<double>(point.ranks)), plot.y(at));
    }
    // A line of one point would be invisible.
    if (shown.size() == 1) plot.canvas().circle(shown[0].first, shown[0].second, 4, style);
    if (shown.size() < 2) return;
    std::string path;
    for (const auto& [right, down] : shown) {
      path += fmt::format("{}{} {}", path.empty() ? 'M' : 'L', svg::coordinate(right), svg::coordinate(down));
    }
    plot.canvas().path(path, style);
  }
};

double throughput_of(const ScalePoint& point) {
  return point.throughput;
}

/// Rounding the batch up to whole micro-batches can make it slightly more than 100.
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
  double fastest = 0, slowest = INFINITY, max_exposed = 0.1;
  for (const Series& s : series) {
    for (const ScalePoint& point : s.variant->points) {
      fastest = std::max(fastest, one_rank * static_cast<double>(point.ranks));
      slowest = std::min(slowest, point.throughput);
      max_exposed = std::max(max_exposed, exposed_milliseconds(point));
    }
  }
  const std::vector<ScalePoint>& points = series[0].variant->points;
  const svg::Axis ranks =
      svg::decade_axis(static_cast<double>(points.front().ranks), static_cast<double>(points.back().ranks));
  return {{"throughput, samples a second", ranks, svg::decade_axis(slowest, fastest)},
          {"efficiency, percent", ranks, {0, 100, false}},
          {"exposed communication, ms a step", ranks, svg::decade_axis(0.1, max_exposed * 1.01)}};
}

void draw_legend(svg::Canvas& canvas, const std::vector<Series>& series, bool has_playbook) {
  double x = 20, y = kPanelHeight + kRow;
  const auto key = [&](const char* style, const std::string& name) {
    canvas.line(x, y - 4, x + 36, y - 4, style);
    canvas.text(x + 44, y, name);
    x += 280;
  };
  for (const Series& s : series) {
    key(s.style, fmt::format("{}, {} buckets", name_of(s.variant->algorithm), bytes_text(s.variant->bucket)));
  }
  x = 20;
  y += kRow;
  key(kIdealStyle, "one rank's, times the ranks");
  if (has_playbook) key(kPlaybookStyle, fmt::format("{} ranks: the Ultra-Scale Playbook", kPlaybook));
}

}  // namespace

std::string scale_svg(const ScalePlan& plan) {
  std::vector<Series> series = {{&plan.asked, kStyles[0]}};
  for (std::size_t i = 0; i < plan.others.size(); ++i) series.push_back({&plan.others[i], kStyles[i + 1]});
  const ScalePoint& first = plan.asked.points.front();
  const double one_rank = first.throughput / (first.efficiency * static_cast<double>(first.ranks));
  auto [throughput, efficiency, exposed] = panels_of(series, one_rank);
  ScaleVariant ideal = plan.asked;
  for (ScalePoint& point : ideal.points) point.throughput = one_rank * static_cast<double>(point.ranks);
  throughput.draw(ideal, kIdealStyle, throughput_of);
  for (const Series& s : series) {
    throughput.draw(*s.variant, s.style, throughput_of);
    efficiency.draw(*s.variant, s.style, efficiency_percent);
    exposed.draw(*s.variant, s.style, exposed_milliseconds);
  }
  svg::Canvas canvas(3 * kPanelWidth, kPanelHeight + 3 * kRow,
                     "throughput, efficiency and exposed communication against ranks");
  double x = 0;
  for (Panel* panel : {&throughput, &efficiency, &exposed}) {
    panel->draw_playbook();
    canvas.picture(x, 0, panel->plot.canvas());
    x += kPanelWidth;
  }
  draw_legend(canvas, series, throughput.shows_playbook());
  return canvas.file();
}

}  // namespace ringtape::planner
