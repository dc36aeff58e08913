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

/// A line, or single points; its index in the list chooses the colour.
struct Series {
  std::string name;
  std::vector<Point> points;  ///< by ascending x; values that are not finite leave a gap
  bool as_dots = false;
};

struct LineChart {
  std::string title;
  std::string x_name, y_name;
  double width = 480;
  double height = 260;
  bool from_zero = false;  ///< the vertical axis contains 0; otherwise it may be logarithmic
  bool log_log = false;    ///< both axes are logarithmic; all values must be above 0
};

/// The largest number of points of a line.
constexpr std::size_t kMaxGroups = 240;

/// Lines over x. A series with more than kMaxGroups points is drawn as the mean of each group of neighbours,
/// with a band from the group's smallest to its largest value. Unless the chart has `from_zero`, the vertical
/// axis is logarithmic if all values are above 0 and the largest is more than 20 times the smallest. Without
/// points the axes are empty.
Canvas line_chart(const LineChart& chart, std::span<const Series> series);

/// A group of neighbouring points: mean, smallest and largest y of the finite ones, at the mean of their x. A
/// group without finite values has a NaN mean.
struct Group {
  double x, mean, low, high;
};
/// The points in at most `most` groups of about equal size.
std::vector<Group> group_points(std::span<const Point> points, std::size_t most);

}  // namespace ringtape::svg
