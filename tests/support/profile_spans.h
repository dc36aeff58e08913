#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "profile/profile.h"

/// Spans at chosen times, for the profiler's tests.
namespace ringtape::test {

inline constexpr SpanClock::time_point kZero{std::chrono::seconds(5000)};

inline Span span(SpanKind kind, const char* name, int depth, int begin, int end,
                 Track track = Track::compute) {
  Span made;
  made.track = track;
  made.kind = kind;
  made.name = name;
  made.begin = kZero + std::chrono::milliseconds(begin);
  made.end = kZero + std::chrono::milliseconds(end);
  made.depth = depth;
  return made;
}

inline const ProfileRow& row(const Profile& profile, const std::string& name) {
  const auto found = std::find_if(profile.rows.begin(), profile.rows.end(),
                                  [&](const ProfileRow& candidate) { return candidate.name == name; });
  if (found == profile.rows.end()) fail("no row {}", name);
  return *found;
}

inline SpanClock::duration time_of(const Profile& profile, const std::string& phase) {
  for (const ProfilePhase& candidate : profile.phases) {
    if (candidate.name == phase) return candidate.time;
  }
  fail("no phase {}", phase);
}

/// Two steps of 100 and 50 ms, in the order in which the spans end.
inline std::vector<Span> two_steps() {
  using enum SpanKind;
  Span linear = span(operation, "linear", 3, 10, 30);
  linear.shapes = "2x3, 4x3";
  linear.work = {.flops = 40'000'000, .bytes = 2'000'000};
  Span last = linear;
  last.begin = kZero + std::chrono::milliseconds(110);
  last.end = kZero + std::chrono::milliseconds(120);
  last.depth = 1;
  Span elsewhere = span(operation, "elsewhere", 1, 10, 90);
  elsewhere.thread = std::this_thread::get_id();
  return {span(operation, "before", 0, -10, 0),
          linear,
          span(layer, "layer 0", 2, 8, 32),
          span(phase, "forward", 1, 5, 40),
          span(operation, "wait", 3, 60, 75, Track::waiting),
          span(operation, "linear backward", 2, 50, 80),
          elsewhere,
          span(operation, "all_reduce #3", 0, 20, 85, Track::communication),
          span(phase, "backward", 1, 45, 85),
          span(step, "step 7", 0, 0, 100),
          last,
          span(step, "step 8", 0, 100, 150)};
}

}  // namespace ringtape::test
