#include "plot/axis.h"

#include <algorithm>
#include <cmath>

namespace ringtape::svg {
namespace {

/// A step of 1, 2 or 5 times a power of ten, about `length` / `count`.
double nice_step(double length, int count) {
  const double rough = length / count;
  const double decade = std::pow(10.0, std::floor(std::log10(rough)));
  const double mantissa = rough / decade;
  return decade * (mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10);
}

std::vector<double> logarithmic_ticks(const Axis& axis, int count) {
  const double first = std::ceil(std::log10(axis.low) - 1e-9), last = std::log10(axis.high) + 1e-9;
  const double every = std::ceil((last - first + 1) / (count + 2));
  const bool are_few = last - first < 2;
  std::vector<double> values;
  for (double exponent = are_few ? first - 1 : first; exponent <= last; exponent += every) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      const double value = mantissa * std::pow(10.0, exponent);
      const bool is_inside = value >= axis.low * (1 - 1e-9) && value <= axis.high * (1 + 1e-9);
      if (is_inside && (mantissa == 1 || are_few)) values.push_back(value);
    }
  }
  return values;
}

}  // namespace

double Axis::at(double value) const {
  if (!logarithmic) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

Axis nice_axis(double low, double high, int ticks) {
  if (!std::isfinite(low) || !std::isfinite(high)) return {};
  if (!(high > low))
    high = low + std::max(1.0, std::fabs(low) * 1e-6);  // more than 1 where 1 is rounded away
  const double step = nice_step(high - low, ticks);
  // The tolerance: 0.3 / 0.1 is a little less than 3.
  return {step * std::floor(low / step + 1e-9), step * std::ceil(high / step - 1e-9)};
}

Axis decade_axis(double low, double high) {
  const double first = std::floor(std::log10(low) + 1e-9);
  const double last = std::max(std::ceil(std::log10(high) - 1e-9), first + 1);
  return {std::pow(10.0, first), std::pow(10.0, last), true};
}

Axis logarithmic_axis(double low, double high) {
  const Axis decades = decade_axis(low, high);
  Axis axis = decades;
  for (double decade = decades.low; decade < decades.high * 0.99; decade *= 10) {
    for (const double mantissa : {1.0, 2.0, 5.0, 10.0}) {
      const double value = decade * mantissa;
      if (value <= low * (1 + 1e-9)) axis.low = value;
      if (value >= high * (1 - 1e-9)) axis.high = std::min(axis.high, value);
    }
  }
  if (axis.high <= axis.low) return decades;
  return axis;
}

std::vector<double> ticks(const Axis& axis, int count) {
  if (axis.logarithmic) return logarithmic_ticks(axis, count);
  const double step = nice_step(axis.high - axis.low, count);
  std::vector<double> values;
  const double first = std::ceil(axis.low / step - 1e-9), last = std::floor(axis.high / step + 1e-9);
  for (double i = first; i <= last; ++i) values.push_back(i == 0 ? 0 : i * step);
  return values;
}

}  // namespace ringtape::svg
