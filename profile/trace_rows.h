#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "trace/spans.h"

namespace ringtape {

/// The rows of one process in a trace. The items of a row are consecutive or nested; items that overlap
/// otherwise go to further rows.
class TraceRows {
 public:
  /// The number of the row called `name` for something from `begin` to `end`. For each name, call it in the
  /// order of `begin`, and for equal `begin` the longer item first.
  int row_for(const std::string& name, SpanClock::time_point begin, SpanClock::time_point end);

  struct Row {
    std::string name;
    std::vector<SpanClock::time_point> open{};  // ends of open items, the outermost first
  };
  /// All rows by number. The second row of a name is called "name 2".
  const std::vector<Row>& all() const { return rows_; }

 private:
  std::vector<Row> rows_;
  std::map<std::string, std::vector<int>> rows_of_name_;
};

}  // namespace ringtape
