#include <algorithm>
#include <functional>

#include "core/numbers.h"
#include "profile/text.h"
#include "train/report/document.h"

namespace ringtape::report {
namespace {

constexpr std::size_t kMaxRows = 60;
constexpr double kMinRowShare = 0.0005;  // rows with a smaller share of the step are merged into one

/// Formats the figures of one step as text for the tables.
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

Json phases(const Profile& profile) {
  const Figures figures(profile);
  Json::Array list;
  const auto add = [&](const std::string& name, SpanClock::duration time, int colour) {
    if (figures.share(time) < 0.0005) return;
    list.push_back({{"name", name},
                    {"colour", colour},
                    {"share", figures.share(time)},
                    {"time", figures.milliseconds(time) + " ms"},
                    {"percent", figures.percent(time)}});
  };
  SpanClock::duration rest = profile.wall;
  for (const ProfilePhase& phase : profile.phases) {
    const SpanClock::duration time = profile.has_device_times() ? phase.device : phase.time;
    add(phase.name, time, colour_of_phase(phase.name));
    rest -= time;
  }
  add(std::string(kIdle), rest, 7);
  return list;
}

/// A column of the table by operation, and its text for a row.
struct Field {
  Json column;
  std::function<std::string(const ProfileRow&)> value;
};

std::vector<Field> fields_of(const Profile& profile, const Figures& figures) {
  using Row = const ProfileRow&;
  std::vector<Field> fields = {
      {column("self ms", true, "of the host, without nested operations"),
       [&](Row row) { return figures.milliseconds(row.self); }},
      {column("share", true, "of the step"), [&](Row row) { return figures.percent(row.self); }},
      {column("layer", false), [](Row row) { return row.layer; }},
      {column("calls"), [&](Row row) { return figures.amount(row.calls); }},
      {column("bytes", true, "by formula: each operand read once, each result written once"),
       [&](Row row) { return figures.bytes(row.work.bytes); }},
      {column("FLOP", true, "by formula: additions and multiplications"),
       [&](Row row) { return figures.amount(row.work.flops); }},
      {column("GB/s"), [](Row row) { return rate(row.gbytes_per_second()); }},
      {column("GFLOP/s"), [](Row row) { return rate(row.gflops_per_second()); }},
      {column("of limit", true, "the machine's minimum time for it / the measured time"),
       [&](Row row) {
         const double share = row.share_of_limit(profile.limits);
         return share == 0 ? "–" : fmt::format("{:.0f}%", 100 * share);
       }},
      {column("memory", true, "allocated minus released bytes"),
       [&](Row row) { return figures.bytes(row.memory); }},
  };
  const bool has_device =
      std::any_of(profile.rows.begin(), profile.rows.end(), [](Row row) { return row.device.count() > 0; });
  if (has_device) {
    fields.insert(fields.begin() + 2, {column("device ms", true, "time of its kernels on the GPU"),
                                       [&](Row row) { return figures.milliseconds_or_dash(row.device); }});
  }
  return fields;
}

Json operations(const Profile& profile) {
  const Figures figures(profile);
  const std::vector<Field> fields = fields_of(profile, figures);
  Json::Array columns = {column("operation and shapes", false)}, rows;
  for (const Field& field : fields) columns.push_back(field.column);
  const auto sum = [&](const std::string& name, SpanClock::duration time, const char* kind) {
    Json::Array cells(fields.size() + 1, "");
    cells[0] = name;
    cells[1] = figures.milliseconds(time);
    cells[2] = figures.percent(time);
    rows.push_back({{"cells", cells}, {"kind", kind}});
  };
  const double longest = profile.rows.empty() ? 1 : figures.share(profile.rows.front().self);
  SpanClock::duration rest{};
  for (const ProfileRow& row : profile.rows) {
    if (rows.size() == kMaxRows || figures.share(row.self) < kMinRowShare) {
      rest += row.self;
      continue;
    }
    Json::Array cells = {row.name};
    for (const Field& field : fields) cells.push_back(field.value(row));
    rows.push_back({{"cells", cells}, {"detail", row.shapes}, {"bar", figures.share(row.self) / longest}});
  }
  if (rows.size() < profile.rows.size()) {
    sum(fmt::format("{} more, with less time", profile.rows.size() - rows.size()), rest, "rest");
  }
  sum(std::string(kIdle), profile.idle(), "rest");
  sum("step", profile.wall, "sum");
  return {{"columns", columns}, {"rows", rows}};
}

/// Null if there are fewer than two layers.
Json layers(const Profile& profile) {
  if (profile.layers.size() < 2) return {};
  const Figures figures(profile);
  const bool is_of_device = has_device_times(profile.layers);
  SpanClock::duration longest{1};
  for (const ProfileLayer& layer : profile.layers)
    longest = std::max(longest, layer.forward_time(is_of_device) + layer.backward_time(is_of_device));
  Json::Array rows;
  for (const ProfileLayer& layer : profile.layers) {
    const SpanClock::duration forward = layer.forward_time(is_of_device);
    const SpanClock::duration backward = layer.backward_time(is_of_device);
    const Json::Array cells = {layer.name.empty() ? "in no layer" : layer.name,
                               figures.milliseconds(forward),
                               figures.milliseconds(backward),
                               figures.percent(forward + backward),
                               figures.amount(layer.work.flops),
                               layer.kept == 0 ? "–" : bytes_text(static_cast<double>(layer.kept))};
    rows.push_back({{"cells", cells}, {"bar", seconds(forward + backward) / seconds(longest)}});
  }
  const char* const whose = is_of_device ? "of the GPU" : "of the host";
  return {{"columns", Json::Array{column("layer", false), column("forward ms", true, whose),
                                  column("backward ms", true, whose), column("share"), column("FLOP"),
                                  column("kept", true, "bytes that its forward saved for backward")}},
          {"rows", rows}};
}

Json suggestions(const Profile& profile) {
  Json::Array list;
  for (const std::string& sentence : profile_verdict(profile)) list.push_back(sentence);
  return list;
}

}  // namespace

Json profile_of(const RunReport& report) {
  if (!report.profile) return {};
  const Profile& profile = *report.profile;
  return {{"first_step", report.first_profiled}, {"last_step", report.last_profiled},
          {"phases", phases(profile)},           {"suggestions", suggestions(profile)},
          {"operations", operations(profile)},   {"layers", layers(profile)}};
}

}  // namespace ringtape::report
