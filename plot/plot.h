#pragma once

#include <string>
#include <vector>

#include "plot/axis.h"
#include "plot/canvas.h"

namespace ringtape::svg {

/// Size, names and legend of a chart.
struct PlotFrame {
  double width = 480;
  double height = 260;
  Axis x, y;
  std::string x_name;  ///< with its unit; below the axis
  std::string y_name;  ///< above the axis
  std::string title;   ///< for screen readers
  /// Name and colour number of each series; in one row above the chart, or several if too long.
  std::vector<std::pair<std::string, int>> legend;
};

/// A picture with two axes, their ticks and a grid, for a chart to draw on.
class Plot {
 public:
  explicit Plot(const PlotFrame& frame);

  /// Position of a value, in the canvas's units.
  double x(double value) const { return left_ + (right_ - left_) * x_axis_.at(value); }
  double y(double value) const { return bottom_ - (bottom_ - top_) * y_axis_.at(value); }
  double left() const { return left_; }
  double right() const { return right_; }
  double top() const { return top_; }
  double bottom() const { return bottom_; }
  Canvas& canvas() { return canvas_; }
  const Canvas& canvas() const { return canvas_; }

 private:
  void draw_legend(const PlotFrame& frame);
  void draw_axes(const PlotFrame& frame);

  Canvas canvas_;
  Axis x_axis_, y_axis_;
  double left_, right_, top_, bottom_;
};

}  // namespace ringtape::svg
