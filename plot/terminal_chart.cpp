#include "plot/terminal_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ringtape {
namespace {

/// Mean of the finite values of each column; NaN where there is none.
std::vector<double> columns_of(const std::vector<double>& values, int width) {
  const auto count = std::min<std::size_t>(values.size(), static_cast<std::size_t>(width));
  std::vector<double> columns(count);
  for (std::size_t c = 0; c < count; ++c) {
    double sum = 0;
    int finite = 0;
    for (std::size_t i = c * values.size() / count; i < (c + 1) * values.size() / count; ++i) {
      if (!std::isfinite(values[i])) continue;
      sum += values[i];
      ++finite;
    }
    columns[c] = finite > 0 ? sum / finite : std::nan("");
  }
  return columns;
}

}  // namespace

std::string line_chart(const std::vector<double>& values, int width, int height, Axis axis) {
  if (values.size() < 2) return "";
  std::vector<double> columns = columns_of(values, width);
  const bool logarithmic = axis == Axis::automatic &&
                           std::all_of(columns.begin(), columns.end(), [](double v) { return !(v <= 0); });
  double low = INFINITY, high = -INFINITY;
  for (double& value : columns) {
    if (logarithmic) value = std::log10(value);
    if (std::isnan(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (!(low <= high)) return "";
  if (high - low < 1e-9) high = low + 1e-9;

  // A Braille character has four dots in each column: 1, 2, 3 and 7 in the left one.
  const int dots = height * 4;
  std::vector<std::vector<unsigned>> cells(static_cast<std::size_t>(height),
                                           std::vector<unsigned>(columns.size(), 0));
  constexpr unsigned kDot[4] = {0x01 | 0x08, 0x02 | 0x10, 0x04 | 0x20, 0x40 | 0x80};
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (std::isnan(columns[c])) continue;
    const int dot = static_cast<int>(std::lround((high - columns[c]) / (high - low) * (dots - 1)));
    cells[static_cast<std::size_t>(dot / 4)][c] |= kDot[dot % 4];
  }

  std::string chart;
  for (int row = 0; row < height; ++row) {
    const double at = high - (high - low) * row / std::max(1, height - 1);
    chart += fmt::format("{:>9.4g} |", logarithmic ? std::pow(10.0, at) : at);
    for (unsigned cell : cells[static_cast<std::size_t>(row)]) {
      const unsigned code = 0x2800 + cell;  // UTF-8 of the Braille block
      chart += cell == 0 ? " "
                         : std::string{static_cast<char>(0xE0 | (code >> 12)),
                                       static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
                                       static_cast<char>(0x80 | (code & 0x3F))};
    }
    chart += '\n';
  }
  return chart;
}

}  // namespace ringtape
