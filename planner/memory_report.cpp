#include <fmt/format.h>

#include "planner/memory.h"
#include "planner/numbers.h"

namespace ringtape::planner {

std::string memory_text(const MemoryPlan& plan) {
  std::string text = fmt::format("{} parameters", grouped(plan.parameters));
  if (plan.trained == 0) {
    text += ", forward only";
  } else if (plan.trained < plan.parameters) {
    text += fmt::format(", {} of them trained", grouped(plan.trained));
  }
  text += "\n\n";
  const auto line = [&](const std::string& name, std::int64_t bytes, const std::string& how) {
    const std::string row =
        fmt::format("{:<24} {:>22} {:>12}   {}", name, grouped(bytes), bytes_text(bytes), how);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  };
  text += fmt::format("{:<24} {:>22} {:>12}   how\n", "on each rank", "bytes", "");
  for (const MemoryRow& row : plan.rows) line(row.name, row.bytes, row.how);
  line("total", plan.total(),
       fmt::format("{:.4g} GB of 10^9 bytes", static_cast<double>(plan.total()) / 1e9));
  if (!plan.notes.empty()) text += "\n";
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  return text;
}

Json memory_json(const MemoryPlan& plan) {
  Json json = {{"parameters", plan.parameters}, {"trained", plan.trained}, {"total_bytes", plan.total()}};
  json["rows"] = Json::Array{};
  for (const MemoryRow& row : plan.rows) {
    json["rows"].push_back(Json{{"name", row.name}, {"bytes", row.bytes}, {"how", row.how}});
  }
  json["notes"] = Json::Array(plan.notes.begin(), plan.notes.end());
  return json;
}

}  // namespace ringtape::planner
