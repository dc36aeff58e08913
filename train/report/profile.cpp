#include <algorithm>
#include <functional>

#include "core/numbers.h"
#include "profile/text.h"
#include "train/report/run_report.h"

namespace ringtape::report {
namespace {

constexpr std::size_t kMostRows = 60;
constexpr double kLeastRowShare = 0.0005;  // of the step, of a row of its own

/// Figures of one step, as the tables show them.
class Figures {
 public:
  explicit Figures(const Profile& profile)
      : steps_(static_cast<double>(std::max<std::int64_t>(profile.steps, 1))), wall_(seconds(profile.wall)) {}

  std::string milliseconds(SpanClock::duration time) const {
    return fmt::format("{:.3f}", seconds(time) * 1e3 / steps_);
  }
  std::string milliseconds_or_dash(SpanClock::duration time) const {
    return time.count() == 0 ? "–" : milliseconds(time);
  }
  double share(SpanClock::duration time) const { return wall_ > 0 ? seconds(time) / wall_ : 0; }
  std::string percent(SpanClock::duration time) const { return fmt::format("{:.1f}%", 100 * share(time)); }
  std::string amount(std::int64_t number) const {
    return number == 0 ? "–" : short_number(static_cast<double>(number) / steps_);
  }
  std::string bytes(std::int64_t number) const {
    if (number == 0) return "–";
    const double each = static_cast<double>(number) / steps_;
    return (each < 0 ? "−" : "") + bytes_text(std::abs(each));
  }

 private:
  double steps_, wall_;
};

std::string rate(double value) {
  if (value == 0) return "–";
  return value < 0.01 ? "< 0.01" : short_number(value);
}

std::string phase_bar(const Profile& profile) {
  const Figures figures(profile);
  std::string bar = "<div class=\"stack\" role=\"img\" aria-label=\"time by phase\">",
              keys = "<ul class=\"keys\">\n";
  const auto add = [&](const std::string& name, SpanClock::duration time, int colour) {
    if (figures.share(time) < 0.0005) return;
    const std::string label = fmt::format("{} {}", name, figures.percent(time));
    bar += fmt::format("<i title=\"{}\" style=\"flex:{:.4f} 0 0;background:var(--c{})\"></i>",
                       svg::escape(label), figures.share(time), colour);
    keys += fmt::format("<li><i style=\"background:var(--c{})\"></i>{} <span>{} ms, {}</span></li>\n", colour,
                        svg::escape(name), figures.milliseconds(time), figures.percent(time));
  };
  for (const ProfilePhase& phase : profile.phases) add(phase.name, phase.time, colour_of_phase(phase.name));
  add("idle, or not marked", profile.idle(), 7);
  return bar + "</div>\n" + keys + "</ul>\n";
}

/// A column of the table by operation, and what a row has there.
struct Field {
  Table::Column column;
  std::function<std::string(const ProfileRow&)> value;
};

std::vector<Field> fields_of(const Profile& profile, const Figures& figures) {
  using Row = const ProfileRow&;
  std::vector<Field> fields = {
      {{"self ms", true, "of the host, without what it called"},
       [&](Row row) { return figures.milliseconds(row.self); }},
      {{"share", true, "of the step"}, [&](Row row) { return figures.percent(row.self); }},
      {{"layer", false}, [](Row row) { return row.layer; }},
      {{"calls"}, [&](Row row) { return figures.amount(row.calls); }},
      {{"bytes", true, "by formula: each operand read once, each result written once"},
       [&](Row row) { return figures.bytes(row.work.bytes); }},
      {{"FLOP", true, "by formula: additions and multiplications"},
       [&](Row row) { return figures.amount(row.work.flops); }},
      {{"GB/s"}, [](Row row) { return rate(row.gbytes_per_second()); }},
      {{"GFLOP/s"}, [](Row row) { return rate(row.gflops_per_second()); }},
      {{"of limit", true, "the least time that the machine needs for it by the time taken"},
       [&](Row row) {
         const double share = row.share_of_limit(profile.limits);
         return share == 0 ? "–" : fmt::format("{:.0f}%", 100 * share);
       }},
      {{"memory", true, "bytes taken less bytes given back"},
       [&](Row row) { return figures.bytes(row.memory); }},
  };
  const bool has_device =
      std::any_of(profile.rows.begin(), profile.rows.end(), [](Row row) { return row.device.count() > 0; });
  if (has_device) {
    fields.insert(fields.begin() + 2, {{"device ms", true, "that the GPU worked on it"},
                                       [&](Row row) { return figures.milliseconds_or_dash(row.device); }});
  }
  return fields;
}

std::string operations(const Profile& profile) {
  const Figures figures(profile);
  const std::vector<Field> fields = fields_of(profile, figures);
  std::vector<Table::Column> columns = {{"operation and shapes", false}};
  for (const Field& field : fields) columns.push_back(field.column);
  Table table(columns);
  const auto sum = [&](const std::string& name, SpanClock::duration time, const char* classes) {
    std::vector<std::string> cells(fields.size());
    cells[0] = figures.milliseconds(time);
    cells[1] = figures.percent(time);
    table.add(svg::escape(name), cells, classes);
  };
  const double longest = profile.rows.empty() ? 1 : figures.share(profile.rows.front().self);
  SpanClock::duration rest{};
  std::size_t shown = 0;
  for (const ProfileRow& row : profile.rows) {
    if (shown == kMostRows || figures.share(row.self) < kLeastRowShare) {
      rest += row.self;
      continue;
    }
    ++shown;
    std::vector<std::string> cells;
    for (const Field& field : fields) cells.push_back(field.value(row));
    const std::string shapes =
        row.shapes.empty() ? "" : fmt::format(" <small>{}</small>", svg::escape(row.shapes));
    table.add(bar(figures.share(row.self) / longest, 0, row.name) + shapes, cells);
  }
  if (shown < profile.rows.size()) {
    sum(fmt::format("{} more, which took less", profile.rows.size() - shown), rest, "rest");
  }
  sum("idle, or not marked", profile.idle(), "rest");
  sum("step", profile.wall, "sum");
  return table.markup();
}

std::string layers(const Profile& profile) {
  const Figures figures(profile);
  SpanClock::duration longest{1};
  for (const ProfileLayer& layer : profile.layers)
    longest = std::max(longest, layer.forward + layer.backward);
  Table table({{"layer", false},
               {"forward ms"},
               {"backward ms"},
               {"share"},
               {"FLOP"},
               {"kept", true, "bytes that its forward left for backward"}});
  for (const ProfileLayer& layer : profile.layers) {
    const SpanClock::duration time = layer.forward + layer.backward;
    const std::string name = layer.name.empty() ? "in no layer" : layer.name;
    table.add(bar(seconds(time) / seconds(longest), 0, name),
              {figures.milliseconds(layer.forward), figures.milliseconds(layer.backward),
               figures.percent(time), figures.amount(layer.work.flops),
               layer.kept == 0 ? "–" : bytes_text(static_cast<double>(layer.kept))});
  }
  return table.markup();
}

std::string what_it_suggests(const Profile& profile) {
  std::string text = "<ul class=\"says\">\n";
  for (const std::string& sentence : profile_verdict(profile)) {
    text += "<li>" + svg::escape(sentence) + "</li>\n";
  }
  return text + "</ul>\n";
}

}  // namespace

std::string profile_section(const RunReport& report) {
  if (!report.profile) return "";
  const Profile& profile = *report.profile;
  std::string body =
      phase_bar(profile) + what_it_suggests(profile) + "<h3>By operation</h3>\n" + operations(profile);
  if (profile.layers.size() > 1) body += "<h3>By layer</h3>\n" + layers(profile);
  return section(
      "Where the time goes",
      fmt::format("Steps {} to {}, on average; all figures are of one step{}. {}", report.first_profiled,
                  report.last_profiled, report.world_size > 1 ? " of rank 0, and so are the limits" : "",
                  report.missing),
      body);
}

}  // namespace ringtape::report
