#include "profile/profile.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace ringtape {
namespace {

using Duration = SpanClock::duration;

/// The phases in display order; other phases follow, "other" last.
constexpr std::array<std::string_view, 6> kPhases = {"data",       "forward", "backward",
                                                     "all-reduce", "waiting", "optimizer"};
constexpr std::string_view kOther = "other", kForward = "forward", kBackward = "backward";

std::size_t place_of(std::string_view phase) {
  if (phase == kOther) return kPhases.size() + 1;
  return static_cast<std::size_t>(std::find(kPhases.begin(), kPhases.end(), phase) - kPhases.begin());
}

/// Name of the row that a span counts in. Steps and the model's layers share a row each.
std::string row_name(const Span& span) {
  switch (span.kind) {
    case SpanKind::step:
      return "(step itself)";
    case SpanKind::phase:
      return "(" + span.name + " itself)";
    case SpanKind::layer:
      return "(layers themselves)";
    case SpanKind::operation:
      return span.name;
  }
  return span.name;
}

/// An unfinished row, with the layers of its calls.
struct OpenRow {
  ProfileRow row;
  std::set<std::string_view> layers;
};

/// "1,3", or "24 layers" where the list would be long.
std::string names_of(const std::set<std::string_view>& layers) {
  constexpr std::size_t kLong = 8;
  std::string names;
  for (const std::string_view layer : layers) {
    if (!names.empty()) names += ',';
    names += layer;
  }
  return layers.size() > 1 && names.size() > kLong ? std::to_string(layers.size()) + " layers" : names;
}

/// An open span, and the row, phase and layer that its own time and memory are charged to.
struct Open {
  const Span* span;
  OpenRow* row;         // null: in no step
  ProfilePhase* phase;  // likewise
  ProfileLayer* layer;  // null: in no layer
};

/// Goes through spans and memory events in the order of time, with the open spans on a stack.
class Builder {
 public:
  explicit Builder(std::size_t memory_at_start) : live_(static_cast<std::int64_t>(memory_at_start)) {}

  void begin(const Span& span, Duration device) {
    while (!open_.empty() && !is_inside(span, *open_.back().span)) end_innermost();
    Open now{&span, nullptr, nullptr, nullptr};
    if (span.kind == SpanKind::step) ++profile_.steps;
    if (span.kind == SpanKind::step || is_in_step()) charge(now, device);
    open_.push_back(now);
    note_live_bytes();
  }

  void allocate(const MemoryEvent& event) {
    while (!open_.empty() && open_.back().span->end < event.time) end_innermost();
    if (event.bytes < 0) held_.erase(event.block);
    live_ += event.bytes;
    note_live_bytes();
    if (!is_in_step() || event.thread != open_.back().span->thread) return;
    const Open& now = open_.back();
    now.row->row.memory += event.bytes;
    if (event.bytes > 0 && now.layer != nullptr && now.phase->name == kForward) {
      held_[event.block] = {now.layer, event.bytes};
    }
  }

  Profile finish() {
    while (!open_.empty()) end_innermost();
    for (auto& [key, made] : rows_) {
      made.row.layer = names_of(made.layers);
      profile_.rows.push_back(std::move(made.row));
    }
    for (auto& [name, phase] : phases_) profile_.phases.push_back(std::move(phase));
    std::stable_sort(
        profile_.phases.begin(), profile_.phases.end(),
        [](const ProfilePhase& a, const ProfilePhase& b) { return place_of(a.name) < place_of(b.name); });
    for (const std::string_view layer : layer_order_) profile_.layers.push_back(std::move(layers_[layer]));
    std::stable_partition(profile_.layers.begin(), profile_.layers.end(),
                          [](const ProfileLayer& layer) { return !layer.name.empty(); });
    sort_rows(profile_, ProfileColumn::self);
    return std::move(profile_);
  }

 private:
  struct Held {
    ProfileLayer* layer;
    std::int64_t bytes;
  };

  /// By depth and time, not by depth alone: an outer span that began before the recording is missing from it.
  static bool is_inside(const Span& span, const Span& outer) {
    return outer.depth < span.depth && span.end <= outer.end;
  }
  /// Memory of an evaluation between steps does not count.
  void note_live_bytes() {
    if (!is_in_step()) return;
    profile_.memory_peak = std::max(profile_.memory_peak, static_cast<std::size_t>(live_));
  }
  bool is_in_step() const { return !open_.empty() && open_.back().row != nullptr; }

  /// Assigns a span in a step to its row, phase and layer, and subtracts its time from the enclosing span.
  void charge(Open& now, Duration device) {
    const Span& span = *now.span;
    const Duration time = span.end - span.begin;
    now.row = &row_of(span);
    now.phase = &phase_of(span);
    now.layer = layer_of(span, now.phase->name);
    add_self(now, time);
    if (is_in_step()) add_self(open_.back(), -time);
    add_device(now, device);
    ProfileRow& row = now.row->row;
    ++row.calls;
    const bool is_in_same_row = std::any_of(open_.begin(), open_.end(), [&](const Open& outer) {
      return outer.row == now.row;  // a layer in a layer
    });
    if (!is_in_same_row) row.total += time;
    row.work += span.work;
    if (now.layer != nullptr) now.layer->work += span.work;
  }

  static void add_self(const Open& open, Duration time) {
    open.row->row.self += time;
    open.phase->time += time;
    if (open.layer != nullptr) {
      (open.phase->name == kBackward ? open.layer->backward : open.layer->forward) += time;
    }
  }

  static void add_device(const Open& open, Duration time) {
    open.row->row.device += time;
    open.phase->device += time;
    if (open.layer != nullptr) {
      (open.phase->name == kBackward ? open.layer->backward_device : open.layer->forward_device) += time;
    }
  }

  OpenRow& row_of(const Span& span) {
    OpenRow& made = rows_[{row_name(span), span.shapes}];
    if (made.row.name.empty())
      std::tie(made.row.name, made.row.shapes) = std::pair(row_name(span), span.shapes);
    if (span.kind == SpanKind::operation) made.layers.insert(span.layer);
    return made;
  }

  ProfilePhase& phase_of(const Span& span) {
    if (span.track == Track::waiting) return phase_called(name_of(Track::waiting));
    if (span.kind == SpanKind::phase) return phase_called(span.name);
    return is_in_step() ? *open_.back().phase : phase_called(kOther);
  }
  ProfilePhase& phase_called(std::string_view name) {
    ProfilePhase& phase = phases_[std::string(name)];
    phase.name = name;
    return phase;
  }

  /// Only spans of forward and backward are in the table of layers.
  ProfileLayer* layer_of(const Span& span, std::string_view phase) {
    if (phase != kForward && phase != kBackward) return nullptr;
    const auto [place, is_new] = layers_.try_emplace(span.layer);
    if (is_new) {
      place->second.name = span.layer;
      layer_order_.push_back(span.layer);
    }
    return &place->second;
  }

  void end_innermost() {
    const Open ended = open_.back();
    open_.pop_back();
    if (ended.row == nullptr || ended.span->kind != SpanKind::phase || ended.span->name != kForward) return;
    std::map<ProfileLayer*, std::int64_t> kept;
    for (const auto& [block, held] : held_) kept[held.layer] += held.bytes;
    for (const auto& [layer, bytes] : kept) layer->kept = std::max(layer->kept, bytes);
    held_.clear();
  }

  Profile profile_;
  std::int64_t live_;
  std::vector<Open> open_;
  std::map<std::pair<std::string, std::string>, OpenRow> rows_;
  std::map<std::string, ProfilePhase> phases_;
  std::map<std::string_view, ProfileLayer> layers_;
  std::vector<std::string_view> layer_order_;
  std::map<const void*, Held> held_;  // allocations of the running forward phase, by address
};

/// The spans of the training thread, outer spans before inner ones.
std::vector<const Span*> in_order(std::span<const Span> spans) {
  const auto step =
      std::find_if(spans.begin(), spans.end(), [](const Span& span) { return span.kind == SpanKind::step; });
  std::vector<const Span*> own;
  if (step == spans.end()) return own;
  for (const Span& span : spans) {
    if (span.thread == step->thread && span.track != Track::communication) own.push_back(&span);
  }
  std::stable_sort(own.begin(), own.end(), [](const Span* a, const Span* b) {
    return std::tie(a->begin, a->depth) < std::tie(b->begin, b->depth);
  });
  return own;
}

}  // namespace

Profile make_profile(const ProfileInput& input) {
  Builder builder(input.memory_at_start);
  auto event = input.memory.begin();
  for (const Span* span : in_order(input.spans)) {
    for (; event != input.memory.end() && event->time < span->begin; ++event) builder.allocate(*event);
    const auto place = static_cast<std::size_t>(span - input.spans.data());
    builder.begin(*span, input.device_times.empty() ? Duration{} : input.device_times[place]);
  }
  for (; event != input.memory.end(); ++event) builder.allocate(*event);
  Profile profile = builder.finish();
  profile.wall = input.wall;
  profile.device_busy = input.device_busy;
  for (ProfileRow& row : profile.rows) row.only_queues = input.is_of_gpu && input.device_busy.count() == 0;
  if (input.memory.empty()) profile.memory_peak = 0;
  profile.limits = input.limits;
  profile.shares_memory = input.shares_memory;
  return profile;
}

bool has_device_times(const std::vector<ProfileLayer>& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const ProfileLayer& layer) {
    return (layer.forward_device + layer.backward_device).count() > 0;
  });
}

}  // namespace ringtape
