#include <algorithm>
#include <functional>
#include <variant>

#include "profile/text.h"

namespace ringtape {
namespace {

double rate(std::int64_t amount, SpanClock::duration time) {
  return time.count() > 0 ? static_cast<double>(amount) * 1e-9 / seconds(time) : 0.0;
}

using Text = std::string ProfileRow::*;
using Figure = std::function<double(const ProfileRow&, const Profile&)>;

struct Column {
  std::string name;
  std::variant<Text, Figure> value;
};

/// In the order of ProfileColumn.
const std::vector<Column>& columns() {
  using Row = const ProfileRow&;
  using All = const Profile&;
  static const std::vector<Column> all = {
      {"self", [](Row row, All) { return seconds(row.self); }},
      {"share", [](Row row, All) { return seconds(row.self); }},  // of the step, so in the same order
      {"total", [](Row row, All) { return seconds(row.total); }},
      {"device", [](Row row, All) { return seconds(row.device); }},
      {"calls", [](Row row, All) { return static_cast<double>(row.calls); }},
      {"MB", [](Row row, All) { return static_cast<double>(row.work.bytes); }},
      {"MFLOP", [](Row row, All) { return static_cast<double>(row.work.flops); }},
      {"GB/s", [](Row row, All) { return row.gbytes_per_second(); }},
      {"GFLOP/s", [](Row row, All) { return row.gflops_per_second(); }},
      {"limit", [](Row row, All profile) { return row.share_of_limit(profile.limits); }},
      {"mem", [](Row row, All) { return static_cast<double>(row.memory); }},
      {"operation", &ProfileRow::name},
      {"layer", &ProfileRow::layer},
      {"shapes", &ProfileRow::shapes},
  };
  return all;
}

}  // namespace

double ProfileRow::gflops_per_second() const {
  return rate(work.flops, time());
}

double ProfileRow::gbytes_per_second() const {
  return rate(work.bytes, time());
}

double ProfileRow::share_of_limit(const MachineLimits& limits) const {
  return time().count() > 0 ? limits.least_seconds(work) / seconds(time()) : 0.0;
}

SpanClock::duration Profile::idle() const {
  SpanClock::duration covered{};
  for (const ProfileRow& row : rows) covered += row.self;
  return wall - covered;
}

double Profile::share_of_phase(std::string_view name) const {
  const auto phase = std::find_if(phases.begin(), phases.end(),
                                  [name](const ProfilePhase& candidate) { return candidate.name == name; });
  if (phase == phases.end() || wall.count() == 0) return 0.0;
  return seconds(has_device_times() ? phase->device : phase->time) / seconds(wall);
}

bool Profile::has_device_times() const {
  return std::any_of(rows.begin(), rows.end(), [](const ProfileRow& row) { return row.device.count() > 0; });
}

bool Profile::only_queues() const {
  return std::any_of(rows.begin(), rows.end(), [](const ProfileRow& row) { return row.only_queues; });
}

double Profile::least_seconds() const {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += limits.least_seconds(row.work);
  return sum;
}

const std::vector<std::pair<std::string, ProfileColumn>>& profile_columns() {
  static const auto names = [] {
    std::vector<std::pair<std::string, ProfileColumn>> all;
    for (const Column& column : columns()) all.emplace_back(column.name, ProfileColumn(all.size()));
    return all;
  }();
  return names;
}

void sort_rows(Profile& profile, ProfileColumn column) {
  const Column& by = columns().at(static_cast<std::size_t>(column));
  const auto is_before = [&](const ProfileRow& a, const ProfileRow& b) {
    if (const Text* const text = std::get_if<Text>(&by.value)) return a.**text < b.**text;
    const Figure& figure = std::get<Figure>(by.value);
    return figure(a, profile) > figure(b, profile);
  };
  std::stable_sort(profile.rows.begin(), profile.rows.end(), is_before);
}

}  // namespace ringtape
