#pragma once

#include <string>
#include <vector>

#include "plot/terminal.h"

namespace ringtape {

/// The scale of a chart's vertical axis.
enum class ChartScale {
  automatic,  ///< logarithmic if all values are above 0, as is usual for losses, else linear
  linear,
};

/// The largest width of a chart in columns, without its axis.
constexpr int kMaxColumns = 72;

/// A line chart for a terminal: values from left to right, averaged where several share a column, in `height`
/// lines. No line is longer than the terminal if that has 20 columns or more. Dots are Braille characters,
/// four to a line, or asterisks without UTF-8. Values that are not finite are skipped; fewer than two values
/// give an empty text.
std::string line_chart(const std::vector<double>& values, const Terminal& terminal, int height,
                       ChartScale scale = ChartScale::automatic);

}  // namespace ringtape
