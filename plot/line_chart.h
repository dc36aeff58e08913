#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plot/canvas.h"

namespace ringtape::svg {

struct Point {
  double x = 0;
  double y = 0;
};

/// A line, or single points, in the colour of its place in the list.
struct Series {
  std::string name;
  std::vector<Point> points;  ///< by rising x; what is not finite leaves a gap
  bool as_dots = false;
};

struct LineChart {
  std::string title;
  std::string x_name, y_name;
  double width = 480;
  double height = 260;
  bool from_zero = false;  ///< the vertical axis begins at 0; else it may be logarithmic
};

/// The most points that a line has.
constexpr std::size_t kMostGroups = 240;

/// Lines over x. A series with more than kMostGroups points is drawn as the mean of each group of
/// neighbours, with a band from their smallest to their largest. The vertical axis is logarithmic where all
/// values are above 0 and the largest is more than 20 times the smallest. Nothing to draw: empty axes.
Canvas line_chart(const LineChart& chart, std::span<const Series> series);

/// At most `most` groups of neighbouring points: mean, smallest and largest y of the finite ones, at the mean
/// of their x. A group without any has a mean that is not a number.
struct Group {
  double x, mean, low, high;
};
std::vector<Group> group_points(std::span<const Point> points, std::size_t most);

}  // namespace ringtape::svg
