#include <algorithm>

#include "core/numbers.h"
#include "plot/axis.h"
#include "train/report/step_timeline.h"

namespace ringtape::report {
namespace {

using svg::Canvas;

constexpr double kWidth = 1020, kLeft = 112, kRight = 12, kTop = 8;
constexpr double kNarrow = 4;
constexpr double kRow = 30, kBar = 24, kGroup = 26, kAxis = 46;

bool has(std::span<const LaneSpan> spans, Lane lane) {
  return std::any_of(spans.begin(), spans.end(), [lane](const LaneSpan& span) { return span.lane == lane; });
}

std::vector<Lane> lanes_in_use(std::span<const LaneSpan> spans) {
  std::vector<Lane> lanes;
  for (int i = 0; i < kLanes; ++i) {
    if (has(spans, static_cast<Lane>(i))) lanes.push_back(static_cast<Lane>(i));
  }
  return lanes;
}

double x_of(double seconds, double all) {
  return kLeft + (kWidth - kLeft - kRight) * seconds / all;
}

void draw_span(Canvas& canvas, const LaneSpan& span, double y, double all) {
  const double begin = x_of(std::clamp(span.begin, 0.0, all), all),
               end = x_of(std::clamp(span.end, 0.0, all), all);
  if (end <= begin) return;
  std::string tip = fmt::format("{}\n{}", span.name, time_text(span.end - span.begin));
  if (!span.tip.empty()) tip += "\n" + span.tip;
  // A stroke in the background colour separates neighbours, but would hide a narrow bar.
  const bool is_narrow = end - begin < kNarrow;
  canvas.rectangle(begin, y, std::max(end - begin, 0.3), kBar,
                   fmt::format("{}s{}", is_narrow ? "" : "span ", span.colour), tip, is_narrow ? 0 : 2);
  if (svg::text_width(span.name) + 8 < end - begin) {
    canvas.text((begin + end) / 2, y + kBar / 2 + 4.5, span.name, "on small middle");
  }
}

void draw_axis(Canvas& canvas, double y, double all) {
  const svg::Axis axis{0, all * 1e3};
  for (const double tick : svg::ticks(axis, 10)) {
    const double x = x_of(tick * 1e-3, all);
    canvas.line(x, kTop, x, y + 4, "grid");
    canvas.text(x, y + 19, short_number(tick), "muted middle");
  }
  canvas.text(kWidth - kRight, y + 38, "ms", "muted end");
}

}  // namespace

Canvas draw_timeline(std::span<const std::vector<LaneSpan>> ranks, double seconds) {
  const double all = std::max(seconds, 1e-9);
  double height = kTop;
  for (const std::vector<LaneSpan>& spans : ranks) {
    height += (ranks.size() > 1 ? kGroup : 0) + kRow * static_cast<double>(lanes_in_use(spans).size());
  }
  Canvas canvas(kWidth, height + kAxis, "timeline of a step");
  draw_axis(canvas, height, all);
  double y = kTop;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks.size() > 1) {
      canvas.text(0, y + 16, fmt::format("rank {}", rank), "strong");
      y += kGroup;
    }
    for (const Lane lane : lanes_in_use(ranks[rank])) {
      canvas.text(kLeft - 12, y + kBar / 2 + 4.5, name_of(lane), "muted end");
      for (const LaneSpan& span : ranks[rank]) {
        if (span.lane == lane) draw_span(canvas, span, y, all);
      }
      y += kRow;
    }
  }
  return canvas;
}

}  // namespace ringtape::report
