#include "core/numbers.h"
#include "train/report/document.h"

namespace ringtape::report {
namespace {

std::string size_of(std::size_t bytes) {
  return bytes == 0 ? "–" : bytes_text(static_cast<double>(bytes));
}

Json table(const StepMemory& memory) {
  const BytesByCategory &before = memory.levels.front().live, &peak = peak_of(memory.levels).live;
  const bool has_formula = memory.formula.total() > 0;
  Json::Array columns = {column("category", false), column("before the step"), column("at its peak")};
  if (has_formula)
    columns.push_back(column("by formula", true, "the formula of docs/memory.md for one update"));
  Json::Array rows;
  const auto add = [&](const char* name, std::size_t first, std::size_t most, std::size_t formula,
                       const char* kind) {
    Json::Array cells = {name, size_of(first), size_of(most)};
    if (has_formula) cells.push_back(size_of(formula));
    rows.push_back({{"cells", cells}, {"kind", kind}});
  };
  for (std::size_t i = 1; i <= kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i % kMemoryCategories);  // other comes last
    const std::size_t formula = memory.formula[category];
    if (before[category] + peak[category] + formula == 0) continue;
    add(name_of(category), before[category], peak[category], formula, "");
  }
  add("all", before.total(), peak.total(), memory.formula.total(), "sum");
  if (memory.data_set > 0) add("data set, not in the picture", memory.data_set, memory.data_set, 0, "rest");
  return {{"columns", columns}, {"rows", rows}};
}

}  // namespace

Json memory_of(const RunReport& report) {
  if (!report.memory) return {};
  const StepMemory& memory = *report.memory;
  return {{"step", memory.step},
          {"legend", legend_json(memory_legend(memory.levels))},
          {"svg", memory_picture(memory.levels, memory.seconds, false).element("full")},
          {"table", table(memory)}};
}

}  // namespace ringtape::report
