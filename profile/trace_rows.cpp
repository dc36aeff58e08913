#include "profile/trace_rows.h"

#include <fmt/format.h>

namespace ringtape {

int TraceRows::row_for(const std::string& name, SpanClock::time_point begin, SpanClock::time_point end) {
  std::vector<int>& candidates = rows_of_name_[name];
  for (const int number : candidates) {
    std::vector<SpanClock::time_point>& open = rows_[static_cast<std::size_t>(number)].open;
    while (!open.empty() && open.back() <= begin) open.pop_back();
    if (!open.empty() && open.back() < end) continue;  // it would end after its outer span
    open.push_back(end);
    return number;
  }
  const int number = static_cast<int>(rows_.size());
  rows_.push_back({candidates.empty() ? name : fmt::format("{} {}", name, candidates.size() + 1), {end}});
  candidates.push_back(number);
  return number;
}

}  // namespace ringtape
