#include "core/numbers.h"
#include "train/report/run_report.h"

namespace ringtape::report {
namespace {

std::string size_of(std::size_t bytes) {
  return bytes == 0 ? "–" : bytes_text(static_cast<double>(bytes));
}

std::string table(const StepMemory& memory) {
  const BytesByCategory &before = memory.levels.front().live, &peak = peak_of(memory.levels).live;
  const bool has_formula = memory.formula.total() > 0;
  std::vector<Table::Column> columns = {{"category", false}, {"before the step"}, {"at its peak"}};
  if (has_formula) columns.push_back({"by formula", true, "what docs/memory.md works out for one update"});
  Table table(columns);
  const auto add = [&](const char* name, std::size_t first, std::size_t most, std::size_t formula,
                       const char* classes) {
    std::vector<std::string> cells = {size_of(first), size_of(most)};
    if (has_formula) cells.push_back(size_of(formula));
    table.add(svg::escape(name), cells, classes);
  };
  for (std::size_t i = 1; i <= kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i % kMemoryCategories);  // other comes last
    const std::size_t formula = memory.formula[category];
    if (before[category] + peak[category] + formula == 0) continue;
    add(name_of(category), before[category], peak[category], formula, "");
  }
  add("all", before.total(), peak.total(), memory.formula.total(), "sum");
  if (memory.data_set > 0) add("data set, not in the picture", memory.data_set, memory.data_set, 0, "rest");
  return table.markup();
}

}  // namespace

std::string memory_section(const RunReport& report) {
  if (!report.memory) return "";
  return section(
      "Memory",
      fmt::format("What tensors held in step {}{}, by what it is for.", report.memory->step,
                  report.world_size > 1 ? " on rank 0" : ""),
      legend(memory_legend(report.memory->levels)) +
          wide_figure(memory_picture(report.memory->levels, report.memory->seconds, false).element("full")) +
          table(*report.memory));
}

}  // namespace ringtape::report
