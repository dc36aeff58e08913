#include "plot/terminal_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ringtape {
namespace {

constexpr int kAxisColumns = 11;  // "   0.1234 |"
/// Braille characters with both dots of one of their four rows, from the top.
constexpr int kDotsOfLine = 4;
constexpr const char* kBraille[kDotsOfLine] = {"\u2809", "\u2812", "\u2824", "\u28C0"};

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

std::string line_chart(const std::vector<double>& values, const Terminal& terminal, int height,
                       ChartScale scale) {
  if (values.size() < 2) return "";
  std::vector<double> columns =
      columns_of(values, std::clamp(terminal.columns - kAxisColumns, 9, kMaxColumns));
  const bool logarithmic = scale == ChartScale::automatic &&
                           std::all_of(columns.begin(), columns.end(), [](double v) { return !(v <= 0); });
  double low = INFINITY, high = -INFINITY;
  for (double& value : columns) {
    if (logarithmic) value = std::log10(value);
    if (std::isnan(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (!(low <= high)) return "";
  // Rounding errors of equal values must not fill the chart.
  const double least = 1e-9 * std::max(std::abs(low), std::abs(high));
  if (high - low <= least) high = low + (least > 0 ? least : 1e-9);

  const int dots = height * kDotsOfLine;
  std::string chart;
  for (int row = 0; row < height; ++row) {
    const double at = high - (high - low) * row / std::max(1, height - 1);
    std::string line = fmt::format("{:>9.4g} |", logarithmic ? std::pow(10.0, at) : at);
    for (const double column : columns) {
      const long dot = std::isnan(column) ? -1 : std::lround((high - column) / (high - low) * (dots - 1));
      if (dot < 0 || dot / kDotsOfLine != row) {
        line += ' ';
      } else {
        line += terminal.has_utf8 ? kBraille[dot % kDotsOfLine] : "*";
      }
    }
    chart += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return chart;
}

}  // namespace ringtape
