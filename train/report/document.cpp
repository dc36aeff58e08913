#include "train/report/document.h"

#include "plot/canvas.h"
#include "profile/tape_picture.h"

namespace ringtape::report {
namespace {

constexpr std::size_t kMaxOperations = 100;  // in the drawing of a tape

Json timeline_of(const RunReport& report) {
  if (!report.timeline) return {};
  const auto& [step, seconds, ranks] = *report.timeline;
  return {{"step", step},
          {"legend", legend_json(legend_of(ranks))},
          {"svg", draw_timeline(ranks, seconds).element("full")}};
}

Json tape_of(const RunReport& report) {
  if (!report.tape || report.tape->vertices.empty()) return {};
  return {{"svg", tape_svg(*report.tape, kMaxOperations).element()}};
}

}  // namespace

Json texts_of(const RunReport& report) {
  if (report.texts.empty()) return {};
  Json::Array list;
  for (const auto& [step, title, text] : report.texts) {
    list.push_back({{"step", step}, {"title", title}, {"text", text}});
  }
  return list;
}

Json facts_of(const std::vector<Fact>& facts) {
  Json::Array list;
  for (const auto& [name, value] : facts) list.push_back({{"name", name}, {"value", value}});
  return list;
}

Json legend_json(const std::vector<std::pair<std::string, int>>& names) {
  Json::Array list;
  for (const auto& [name, colour] : names) list.push_back({{"name", name}, {"colour", colour}});
  return list;
}

Json column(const std::string& name, bool is_number, const std::string& tip) {
  return {{"name", name}, {"is_number", is_number}, {"tip", tip}};
}

Json document_of(const RunReport& report) {
  return {{"title", report.title},
          {"subtitle", report.subtitle},
          {"error", report.error},
          {"missing", report.missing},
          {"has_ranks", report.world_size > 1},
          {"results", facts_of(report.results)},
          {"curves", curves_of(report)},
          {"texts", texts_of(report)},
          {"profile", profile_of(report)},
          {"timeline", timeline_of(report)},
          {"roofline", roofline_of(report)},
          {"memory", memory_of(report)},
          {"tape", tape_of(report)},
          {"settings", facts_of(report.settings)},
          {"machine", facts_of(report.machine)},
          {"chart_style", svg::style()}};
}

}  // namespace ringtape::report
