#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "trace/spans.h"

namespace ringtape {

/// The rows of one process in a trace. Viewers draw in a row what lies side by side or one inside the other;
/// whatever overlaps otherwise gets a further row of the same name.
class TraceRows {
 public:
  /// The number of the row called `name` for something from `begin` to `end`. Within a name, to be called in
  /// order of `begin`, and of two with the same the longer one first.
  int row_for(const std::string& name, SpanClock::time_point begin, SpanClock::time_point end);

  struct Row {
    std::string name;
    std::vector<SpanClock::time_point> open{};  // ends of what may still be going on, the outermost first
  };
  /// By their numbers. The second row of a name is called "name 2".
  const std::vector<Row>& all() const { return rows_; }

 private:
  std::vector<Row> rows_;
  std::map<std::string, std::vector<int>> rows_of_name_;
};

}  // namespace ringtape
