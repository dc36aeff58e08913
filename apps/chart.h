#pragma once

#include <string>
#include <vector>

namespace ringtape::apps {

/// A line chart for a terminal: values in order from left to right, averaged where several share a column,
/// the vertical axis logarithmic when all are above 0 (loss curves are read that way), `width` x `height`
/// characters without the axis. Values that are not finite are left out; fewer than two values give an empty
/// text.
std::string line_chart(const std::vector<double>& values, int width, int height);

}  // namespace ringtape::apps
