#pragma once

#include <string>
#include <vector>

namespace ringtape {

/// The vertical axis of a chart.
enum class Axis {
  automatic,  ///< logarithmic when all values are above 0, as loss curves are read, else linear
  linear,
};

/// A line chart for a terminal: values from left to right, averaged where several share a column, `width` x
/// `height` characters without the axis. Values that are not finite are skipped; fewer than two values give
/// an empty text.
std::string line_chart(const std::vector<double>& values, int width, int height, Axis axis = Axis::automatic);

}  // namespace ringtape
