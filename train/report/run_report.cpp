#include "train/report/run_report.h"
#include "profile/tape_picture.h"

namespace ringtape::report {
namespace {

constexpr std::size_t kMostOperations = 100;  // of a tape that is drawn

std::string header(const RunReport& report) {
  std::string text = fmt::format("<header>\n<h1>{}</h1>\n<p class=\"subtitle\">{}</p>\n</header>\n",
                                 svg::escape(report.title), svg::escape(report.subtitle));
  if (!report.error.empty()) {
    text +=
        fmt::format("<p class=\"error\">The run ended with an error: {}.</p>\n", svg::escape(report.error));
  }
  if (report.results.empty()) return text;
  text += "<div class=\"tiles\">\n";
  for (const auto& [name, value] : report.results) {
    text += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", svg::escape(value),
                        svg::escape(name));
  }
  return text + "</div>\n";
}

std::string facts_section(const char* heading, const Facts& facts, const char* without) {
  if (facts.empty()) return without == nullptr ? "" : section(heading, without, "");
  return section(heading, "", description_list(facts));
}

}  // namespace

std::string tape_section(const RunReport& report) {
  if (!report.tape || report.tape->vertices.empty()) return "";
  return section(
      "Tape",
      "What the first forward recorded, from top to bottom. Backward runs it from the bottom up: along "
      "every solid line a gradient flows back, into what the line comes from. A parameter's gradient "
      "is added to what earlier micro-batches left there.",
      wide_figure(tape_svg(*report.tape, kMostOperations).element()));
}

std::string timeline_section(const RunReport& report) {
  if (!report.timeline) return "";
  const auto& [step, seconds, ranks] = *report.timeline;
  return section(
      "A step, moment by moment",
      fmt::format("Step {}, by the host's clock. Point at a bar for what it is. {}", step, report.missing),
      legend(legend_of(ranks)) + wide_figure(draw_timeline(ranks, seconds).element("full")));
}

std::string html_report(const RunReport& report) {
  const std::string body =
      header(report) + curves_section(report) + profile_section(report) + timeline_section(report) +
      roofline_section(report) + memory_section(report) + tape_section(report) +
      facts_section("Settings", report.settings, "No flag was given: all are as --help says.") +
      facts_section("Machine", report.machine, nullptr);
  return page(report.title, body);
}

}  // namespace ringtape::report
