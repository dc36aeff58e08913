#include "plot/area_chart.h"

#include <algorithm>

#include "plot/plot.h"

namespace ringtape::svg {
namespace {

/// The outline of the steps `sums`; changes too small to be visible are not drawn.
std::string outline(const Plot& plot, std::span<const double> moments, double end,
                    std::span<const double> sums) {
  std::string path = fmt::format("M{} {}", coordinate(plot.left()), coordinate(plot.bottom()));
  std::string drawn;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const std::string y = coordinate(plot.y(sums[i]));
    if (y == drawn) continue;
    path += fmt::format("H{}V{}", coordinate(plot.x(moments[i])), y);
    drawn = y;
  }
  return path + fmt::format("H{}V{}Z", coordinate(plot.x(end)), coordinate(plot.bottom()));
}

void mark_peak(Plot& plot, double moment, double height, const std::string& label) {
  const double x = plot.x(moment), y = plot.y(height);
  const bool is_right = x > (plot.left() + plot.right()) / 2;
  plot.canvas().line(plot.left(), y, plot.right(), y, "mark dashed");
  plot.canvas().circle(x, y, 4, "dot ink");
  plot.canvas().text(is_right ? x - 10 : x + 10, y - 8, label, is_right ? "strong end" : "strong");
}

}  // namespace

Canvas area_chart(const AreaChart& chart, std::span<const double> moments, double end,
                  std::span<const Area> areas, const std::string& peak_label) {
  std::vector<std::vector<double>> sums;  // of the areas up to this one
  std::vector<double> sum(moments.size(), 0.0);
  for (const Area& area : areas) {
    for (std::size_t i = 0; i < moments.size(); ++i) sum[i] += area.heights[i];
    sums.push_back(sum);
  }
  const auto peak = std::max_element(sum.begin(), sum.end());
  const double highest = peak == sum.end() ? 0 : *peak;

  PlotFrame frame{.width = chart.width,
                  .height = chart.height,
                  .x = {0, end > 0 ? end : 1},
                  .y = nice_axis(0, highest > 0 ? highest * 1.08 : 1),  // room for the peak's label
                  .x_name = chart.x_name,
                  .y_name = chart.y_name,
                  .title = chart.title,
                  .legend = {}};
  for (const Area& area : areas) {
    if (chart.has_legend) frame.legend.emplace_back(area.name, area.colour);
  }
  Plot plot(frame);
  // The areas are drawn from the largest sum down: each covers the lower part of the one before.
  for (std::size_t i = areas.size(); i-- > 0;) {
    plot.canvas().path(outline(plot, moments, end, sums[i]), fmt::format("s{}", areas[i].colour),
                       areas[i].name);
  }
  if (highest > 0)
    mark_peak(plot, moments[static_cast<std::size_t>(peak - sum.begin())], highest, peak_label);
  return plot.canvas();
}

}  // namespace ringtape::svg
