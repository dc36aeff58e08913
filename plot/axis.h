#pragma once

#include <string>
#include <vector>

namespace ringtape::svg {

/// An axis of a chart: its range of values.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;

  /// The position of a value: 0 at the low end, 1 at the high end, in proportion in between and beyond.
  double at(double value) const;
};

/// A linear axis that contains both values and ends on ticks: nice_axis(0.3, 9.2) goes from 0 to 10. `ticks`
/// is the approximate number of steps. If `high` is not above `low`, low + 1 (low + |low| / 10^6, if that is
/// more) takes its place; for values that are not finite the axis goes from 0 to 1.
Axis nice_axis(double low, double high, int ticks = 5);

/// A logarithmic axis that ends on 1, 2 or 5 times a power of ten; the values must be above 0.
Axis logarithmic_axis(double low, double high);

/// A logarithmic axis of whole powers of ten around the values, which must be above 0.
Axis decade_axis(double low, double high);

/// The values of the axis' ticks: multiples of 1, 2 or 5 times a power of ten (Heckbert, "Nice Numbers for
/// Graph Labels", Graphics Gems, 1990), about `count` steps at most; on a logarithmic axis powers of ten and,
/// if there are fewer than three of them, also 2 and 5 times a power of ten.
std::vector<double> ticks(const Axis& axis, int count = 5);

}  // namespace ringtape::svg
