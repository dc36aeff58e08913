#include "core/profile.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace ringtape {
namespace {

using Duration = SpanClock::duration;

double seconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

double rate(std::int64_t amount, Duration time) {
  return time.count() > 0 ? static_cast<double>(amount) * 1e-9 / seconds(time) : 0.0;
}

/// A span, and what the walk through all spans learns of it.
struct Open {
  const Span* span;
  std::string_view phase;  // that its own time is charged to
  bool is_in_step;
};

/// The phases in the order in which they are shown; those it does not name follow, "other" last.
constexpr std::array<std::string_view, 6> kPhases = {"data",       "forward", "backward",
                                                     "all-reduce", "waiting", "optimizer"};
constexpr std::string_view kOther = "other";

std::size_t place_of(std::string_view phase) {
  if (phase == kOther) return kPhases.size() + 1;
  return static_cast<std::size_t>(std::find(kPhases.begin(), kPhases.end(), phase) - kPhases.begin());
}

/// Name of the row that a span counts in. Steps and the model's layers share a row each.
std::string row_name(const Span& span) {
  switch (span.kind) {
    case SpanKind::step:
      return "(step, outside of phases)";
    case SpanKind::phase:
      return "(" + span.name + ", outside of operations)";
    case SpanKind::layer:
      return "(layers, outside of operations)";
    case SpanKind::operation:
      return span.name;
  }
  return span.name;
}

class Builder {
 public:
  /// To be called for an outer span before those inside of it.
  void add(const Span& span) {
    while (!open_.empty() && !is_inside(span, *open_.back().span)) open_.pop_back();
    Open now{&span, kOther, span.kind == SpanKind::step};
    if (!open_.empty()) {
      now.phase = open_.back().phase;
      now.is_in_step = now.is_in_step || open_.back().is_in_step;
    }
    if (span.kind == SpanKind::phase) now.phase = span.name;
    if (span.track == Track::waiting) now.phase = name_of(Track::waiting);
    if (now.is_in_step) count(now);
    open_.push_back(now);
  }

  Profile finish(Duration wall) {
    profile_.wall = wall;
    for (auto& [key, row] : rows_) profile_.rows.push_back(std::move(row));
    for (const auto& [name, time] : phases_) profile_.phases.push_back({std::string(name), time});
    std::stable_sort(
        profile_.phases.begin(), profile_.phases.end(),
        [](const ProfilePhase& a, const ProfilePhase& b) { return place_of(a.name) < place_of(b.name); });
    sort_rows(profile_, "self");
    return std::move(profile_);
  }

 private:
  /// The second condition fails where the span around `span` began before the recording.
  static bool is_inside(const Span& span, const Span& outer) {
    return outer.depth < span.depth && outer.begin <= span.begin;
  }

  void count(const Open& now) {
    const Span& span = *now.span;
    const Duration time = span.end - span.begin;
    ProfileRow& row = row_of(span);
    ++row.calls;
    row.self += time;
    const bool is_in_same_row = std::any_of(open_.begin(), open_.end(), [&](const Open& outer) {
      return &row_of(*outer.span) == &row;  // a layer in a layer
    });
    if (!is_in_same_row) row.total += time;
    row.work.flops += span.work.flops;
    row.work.bytes += span.work.bytes;
    phases_[now.phase] += time;
    if (span.kind == SpanKind::step) {
      ++profile_.steps;
    } else {
      row_of(*open_.back().span).self -= time;  // it is not the outer span's own
      phases_[open_.back().phase] -= time;
    }
  }

  ProfileRow& row_of(const Span& span) {
    ProfileRow& row = rows_[{row_name(span), span.shapes}];
    if (row.name.empty()) std::tie(row.name, row.shapes) = std::pair(row_name(span), span.shapes);
    return row;
  }

  Profile profile_;
  std::vector<Open> open_;
  std::map<std::pair<std::string, std::string>, ProfileRow> rows_;
  std::map<std::string_view, Duration> phases_;
};

struct Column {
  std::string_view name;
  std::function<double(const ProfileRow&)> value;
};

const std::vector<Column>& number_columns() {
  static const std::vector<Column> columns = {
      {"self", [](const ProfileRow& row) { return seconds(row.self); }},
      {"total", [](const ProfileRow& row) { return seconds(row.total); }},
      {"calls", [](const ProfileRow& row) { return static_cast<double>(row.calls); }},
      {"bytes", [](const ProfileRow& row) { return static_cast<double>(row.work.bytes); }},
      {"flops", [](const ProfileRow& row) { return static_cast<double>(row.work.flops); }},
      {"gb/s", &ProfileRow::gbytes_per_second},
      {"gflop/s", &ProfileRow::gflops_per_second},
  };
  return columns;
}

}  // namespace

double ProfileRow::gflops_per_second() const {
  return rate(work.flops, self);
}

double ProfileRow::gbytes_per_second() const {
  return rate(work.bytes, self);
}

Duration Profile::idle() const {
  Duration covered{};
  for (const ProfileRow& row : rows) covered += row.self;
  return wall - covered;
}

double Profile::share_of_phase(std::string_view name) const {
  const auto phase = std::find_if(phases.begin(), phases.end(),
                                  [name](const ProfilePhase& candidate) { return candidate.name == name; });
  return phase == phases.end() || wall.count() == 0 ? 0.0 : seconds(phase->time) / seconds(wall);
}

Profile make_profile(std::span<const Span> spans, Duration wall) {
  const auto step =
      std::find_if(spans.begin(), spans.end(), [](const Span& span) { return span.kind == SpanKind::step; });
  Builder builder;
  if (step == spans.end()) return builder.finish(wall);
  // They stand in the order in which they ended, so that backwards an outer span comes before those inside.
  for (std::size_t i = spans.size(); i-- > 0;) {
    const Span& span = spans[i];
    if (span.thread == step->thread && span.track != Track::communication) builder.add(span);
  }
  return builder.finish(wall);
}

std::span<const std::string_view> profile_columns() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Column& column : number_columns()) all.push_back(column.name);
    all.push_back("name");
    return all;
  }();
  return names;
}

void sort_rows(Profile& profile, std::string_view column) {
  if (column == "name") {
    std::stable_sort(profile.rows.begin(), profile.rows.end(),
                     [](const ProfileRow& a, const ProfileRow& b) { return a.name < b.name; });
    return;
  }
  const auto& columns = number_columns();
  const auto by = std::find_if(columns.begin(), columns.end(),
                               [column](const Column& candidate) { return candidate.name == column; });
  check(by != columns.end(), "profile: no column is called '{}'", column);
  std::stable_sort(profile.rows.begin(), profile.rows.end(),
                   [by](const ProfileRow& a, const ProfileRow& b) { return by->value(a) > by->value(b); });
}

}  // namespace ringtape
