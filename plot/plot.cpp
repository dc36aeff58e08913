#include "plot/plot.h"

#include <algorithm>

#include "core/numbers.h"

namespace ringtape::svg {
namespace {

constexpr double kRow = 20;       // height of a row of the legend
constexpr double kRight = 18;     // room for half of the last label
constexpr double kBottom = 44;    // labels and name of the x axis
constexpr double kAboveTop = 26;  // name of the y axis

/// A page may enlarge the letters of small pictures on a phone, so every text has some extra room.
constexpr double kRoomToGrow = 1.3;

}  // namespace

Plot::Plot(const PlotFrame& frame)
    : canvas_(frame.width, frame.height, frame.title),
      x_axis_(frame.x),
      y_axis_(frame.y),
      left_(0),
      right_(frame.width - kRight),
      top_(frame.y_name.empty() ? kAboveTop / 2 : kAboveTop),
      bottom_(frame.height - kBottom) {
  double widest = 0;
  for (const double value : ticks(frame.y)) widest = std::max(widest, text_width(short_number(value)));
  left_ = 10 + widest * kRoomToGrow;
  draw_legend(frame);
  draw_axes(frame);
}

void Plot::draw_legend(const PlotFrame& frame) {
  if (frame.legend.empty()) return;
  double x = left_, y = 14;
  for (const auto& [name, colour] : frame.legend) {
    const double length = 18 + text_width(name) * kRoomToGrow + 16;
    if (x > left_ && x + length - 16 > frame.width) {
      x = left_;
      y += kRow;
    }
    canvas_.rectangle(x, y - 10, 12, 12, fmt::format("s{}", colour), "", 3);
    canvas_.text(x + 18, y, name);
    x += length;
  }
  top_ += y + 10;
}

void Plot::draw_axes(const PlotFrame& frame) {
  for (const double value : ticks(frame.y)) {
    canvas_.line(left_, y(value), right_, y(value), "grid");
    canvas_.text(left_ - 6, y(value) + 4.5, short_number(value), "muted end");
  }
  for (const double value : ticks(frame.x, static_cast<int>((right_ - left_) / 70))) {
    canvas_.line(x(value), bottom_, x(value), bottom_ + 4, "axis");
    canvas_.text(x(value), bottom_ + 19, short_number(value), "muted middle");
  }
  canvas_.line(left_, bottom_, right_, bottom_, "axis");
  canvas_.text(right_, bottom_ + 38, frame.x_name, "muted end");
  canvas_.text(2, top_ - 12, frame.y_name, "muted");
}

}  // namespace ringtape::svg
