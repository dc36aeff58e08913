#pragma once

#include <span>
#include <string>
#include <vector>

#include "plot/canvas.h"

namespace ringtape::svg {

/// One area of a stack: its height from each moment on, until the next one.
struct Area {
  std::string name;
  int colour = 0;
  std::vector<double> heights;  ///< of each moment, at least 0
};

struct AreaChart {
  std::string title;
  std::string x_name, y_name;
  double width = 960;
  double height = 340;
  bool has_legend = true;
};

/// Stacked areas, the first at the bottom, as steps: each height holds from its moment to the next, and the
/// last one to `end`. The highest sum is marked with `peak_label`.
Canvas area_chart(const AreaChart& chart, std::span<const double> moments, double end,
                  std::span<const Area> areas, const std::string& peak_label);

}  // namespace ringtape::svg
