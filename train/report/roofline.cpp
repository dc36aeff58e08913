#include <algorithm>
#include <cmath>

#include "core/numbers.h"
#include "plot/plot.h"
#include "train/report/document.h"

namespace ringtape::report {
namespace {

constexpr double kMinPointShare = 0.01;  // of the step: operations with less time are not drawn
constexpr std::size_t kMaxLabels = 6;

/// An operation in the diagram.
struct Dot {
  const ProfileRow* row;
  double intensity;  ///< FLOPs per byte
  double gflops;     ///< per second
  double share;      ///< of the step
};

/// The operations with FLOPs and bytes, in descending order of time.
std::vector<Dot> dots_of(const Profile& profile) {
  std::vector<Dot> dots;
  for (const ProfileRow& row : profile.rows) {
    if (row.work.flops == 0 || row.work.bytes == 0 || row.time().count() == 0) continue;
    const double share = static_cast<double>(row.time().count()) / static_cast<double>(profile.wall.count());
    if (share < kMinPointShare) continue;
    dots.push_back({&row, static_cast<double>(row.work.flops) / static_cast<double>(row.work.bytes),
                    row.gflops_per_second(), share});
  }
  // The rows are in the order of the host's time.
  std::stable_sort(dots.begin(), dots.end(), [](const Dot& a, const Dot& b) { return a.share > b.share; });
  return dots;
}

int colour_of(const RunReport& report, const ProfileRow& row) {
  const auto found = report.phases.find(row.name);
  return colour_of_phase(found == report.phases.end() ? "other" : found->second);
}

/// The attainable rate in GFLOP/s (Williams, Waterman and Patterson, "Roofline", CACM 2009).
double roof(const MachineLimits& limits, double intensity) {
  return std::min(limits.flops_per_second, limits.bytes_per_second * intensity) * 1e-9;
}

svg::PlotFrame frame_of(const std::vector<Dot>& dots, const MachineLimits& limits) {
  double left = INFINITY, right = 0, low = INFINITY, high = limits.flops_per_second * 1e-9;
  for (const Dot& dot : dots) {
    left = std::min(left, dot.intensity);
    right = std::max(right, dot.intensity);
    low = std::min(low, dot.gflops);
    high = std::max(high, dot.gflops);
  }
  // Keep both parts of the roof in the picture.
  if (limits.flops_per_second > 0 && limits.bytes_per_second > 0) {
    const double ridge = limits.flops_per_second / limits.bytes_per_second;
    left = std::min(left, ridge / 2);
    right = std::max(right, 4 * ridge);
  }
  return {.width = 960,
          .height = 420,
          .x = svg::logarithmic_axis(left / 1.5, right * 1.5),
          .y = svg::logarithmic_axis(low / 1.5, high * 1.5),
          .x_name = "FLOPs per byte",
          .y_name = "GFLOP/s",
          .title = "roofline",
          .legend = {}};
}

struct Box {
  double left, top, right, bottom;

  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

/// Writes a text that ends at x; returns its bounding box.
Box write_before(svg::Plot& plot, double x, double y, const std::string& text) {
  plot.canvas().text(x, y, text, "strong end");
  return {x - svg::text_width(text), y - 14, x, y + 4};
}

/// Draws the limits; returns the bounding boxes of their texts.
std::vector<Box> draw_roof(svg::Plot& plot, const svg::Axis& x, double floor, const MachineLimits& limits) {
  if (limits.flops_per_second <= 0 || limits.bytes_per_second <= 0) return {};
  const double peak = limits.flops_per_second * 1e-9;
  const double ridge = limits.flops_per_second / limits.bytes_per_second;
  const double begin = std::max(x.low, floor * 1e9 / limits.bytes_per_second);
  const auto c = svg::coordinate;
  plot.canvas().path(fmt::format("M{} {}L{} {}H{}", c(plot.x(begin)), c(plot.y(roof(limits, begin))),
                                 c(plot.x(ridge)), c(plot.y(peak)), c(plot.right())),
                     "mark roof");
  const double middle = std::sqrt(begin * ridge);
  return {write_before(plot, plot.right() - 6, plot.y(peak) - 8,
                       fmt::format("computes {} GFLOP/s", short_number(peak))),
          write_before(plot, plot.x(middle) - 14, plot.y(roof(limits, middle)),
                       fmt::format("copies {} GB/s", short_number(limits.bytes_per_second * 1e-9)))};
}

/// Draws the names of the operations that take most time, where there is room for them.
void draw_labels(svg::Plot& plot, const std::vector<Dot>& dots, const svg::Axis& x_axis,
                 const MachineLimits& limits, std::vector<Box> taken) {
  const bool has_roof = limits.flops_per_second > 0 && limits.bytes_per_second > 0;
  for (double share = 0; has_roof && share <= 1; share += 1.0 / 128) {
    const double x = plot.left() + share * (plot.right() - plot.left());
    const double y = plot.y(roof(limits, x_axis.low * std::pow(x_axis.high / x_axis.low, share)));
    taken.push_back({x - 4, y - 2, x + 4, y + 2});
  }
  for (const Dot& dot : dots) {
    const double x = plot.x(dot.intensity), y = plot.y(dot.gflops);
    taken.push_back({x - 6, y - 6, x + 6, y + 6});
  }
  std::size_t labels = 0;
  for (const Dot& dot : dots) {
    if (labels == kMaxLabels) return;
    const double x = plot.x(dot.intensity), y = plot.y(dot.gflops), width = svg::text_width(dot.row->name);
    const Box candidates[] = {{x + 12, y - 7, x + 12 + width, y + 7}, {x - 12 - width, y - 7, x - 12, y + 7}};
    for (const Box& box : candidates) {
      const bool is_outside = box.left < plot.left() || box.right > plot.right();
      if (is_outside || std::any_of(taken.begin(), taken.end(), [&](const Box& t) { return t.meets(box); }))
        continue;
      const bool is_right = box.left > x;
      plot.canvas().text(is_right ? box.left : box.right, y + 4.5, dot.row->name,
                         is_right ? "small" : "small end");
      taken.push_back(box);
      ++labels;
      break;
    }
  }
}

std::vector<std::pair<std::string, int>> legend_of_dots(const RunReport& report,
                                                        const std::vector<Dot>& dots) {
  std::vector<LaneSpan> used;
  for (const Dot& dot : dots) used.push_back({.colour = colour_of(report, *dot.row), .name = {}});
  return legend_of(std::vector<std::vector<LaneSpan>>{used});
}

std::string tip_of(const Dot& dot, const MachineLimits& limits) {
  std::string tip = fmt::format("{}\n{}\n{:.1f}% of the step, {} FLOPs per byte\n{} GFLOP/s, {} GB/s",
                                dot.row->name, dot.row->shapes, 100 * dot.share, short_number(dot.intensity),
                                short_number(dot.gflops), short_number(dot.row->gbytes_per_second()));
  const double of_limit = dot.row->share_of_limit(limits);
  if (of_limit > 0) tip += fmt::format(", {:.0f}% of the limit", 100 * of_limit);
  return tip;
}

}  // namespace

Json roofline_of(const RunReport& report) {
  if (!report.profile) return {};
  const std::vector<Dot> dots = dots_of(*report.profile);
  if (dots.empty()) return {};
  const MachineLimits& limits = report.profile->limits;
  const svg::PlotFrame frame = frame_of(dots, limits);
  svg::Plot plot(frame);
  const std::vector<Box> texts = draw_roof(plot, frame.x, frame.y.low, limits);
  // Small dots last, so that no large dot hides them.
  for (const Dot& dot : dots) {
    plot.canvas().circle(plot.x(dot.intensity), plot.y(dot.gflops), 4 + 14 * std::sqrt(dot.share),
                         fmt::format("dot s{}", colour_of(report, *dot.row)), tip_of(dot, limits));
  }
  draw_labels(plot, dots, frame.x, limits, texts);
  return {{"legend", legend_json(legend_of_dots(report, dots))}, {"svg", plot.canvas().element("full")}};
}

}  // namespace ringtape::report
