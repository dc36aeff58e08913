#include "trace/spans.h"

#include <thread>

#include "core/error.h"
#include "profile/overlap.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

constexpr SpanClock::time_point kZero{std::chrono::seconds(5000)};

SpanClock::time_point at(double milliseconds) {
  return kZero + std::chrono::nanoseconds(static_cast<std::int64_t>(milliseconds * 1e6));
}

Span span(Track track, double begin, double end) {
  return {track, "x", at(begin), at(end), {}};
}

double ms(SpanClock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

TEST_CASE("spans: what is recorded", "[spans]") {
  CHECK_FALSE(is_recording_spans());
  const SpanClock::time_point earlier = SpanClock::now() - std::chrono::seconds(1);
  { const SpanScope before(Track::compute, "before"); }
  const SpanScope across(Track::compute, "began before");
  SpanRecording recording;
  CHECK(is_recording_spans());
  {
    const SpanScope outer(Track::compute, "outer", {{"bucket", 3}});
    const SpanScope inner(Track::waiting, "inner");
  }
  std::thread([] { const SpanScope scope(Track::communication, "other thread"); }).join();
  add_span({Track::compute, "too early", earlier, SpanClock::now(), {}});
  recording.stop();
  CHECK_FALSE(is_recording_spans());
  { const SpanScope after(Track::compute, "after"); }

  const std::vector<Span>& spans = recording.spans();
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].name == "inner");  // it ended first
  CHECK(spans[1].name == "outer");
  CHECK(spans[1].begin <= spans[0].begin);
  CHECK(spans[0].end <= spans[1].end);
  REQUIRE(spans[1].arguments.size() == 1);
  CHECK(spans[1].arguments[0].value == 3);
  CHECK(spans[2].track == Track::communication);
}

TEST_CASE("spans: one recording at a time", "[spans]") {
  const SpanRecording first;
  CHECK_THROWS_WITH(SpanRecording(), ContainsSubstring("running already"));
  CHECK(is_recording_spans());
}

TEST_CASE("spans: the end of a scope ends a recording", "[spans]") {
  { const SpanRecording recording; }
  CHECK_FALSE(is_recording_spans());
}

TEST_CASE("overlap: communication is hidden while the host computes, but not while it waits", "[spans]") {
  using enum Track;
  //   ms              0    2    4    6    8    10   12   14
  //   compute         [ forward ][ backward         ]
  //     inside it          [4,5]
  //   waiting                              [8 ,   10]
  //   communication        [3    5][5   7]   [9        12]   [13 14]
  const std::vector<Span> spans = {span(compute, 0, 4),        span(compute, 4, 10),
                                   span(compute, 4, 5),        span(waiting, 8, 10),
                                   span(communication, 3, 5),  span(communication, 5, 7),
                                   span(communication, 9, 12), span(communication, 13, 14)};
  const Overlap overlap = measure_overlap(spans);
  CHECK(ms(overlap.compute) == Approx(8));
  CHECK(ms(overlap.waiting) == Approx(2));
  CHECK(ms(overlap.communication) == Approx(8));
  CHECK(ms(overlap.hidden) == Approx(4));
  CHECK(overlap.hidden_share() == Approx(0.5));
}

TEST_CASE("overlap: an operation that continues into the next step counts in both, but not between them",
          "[spans]") {
  using enum Track;
  //   ms              0    2    4    6    8    10   12   14   16   18   20
  //   step            [                       ]    [                    ]
  //   compute         [ backward           ]  [eval] [ forward          ]
  //   communication                       [8             15]
  Span first = span(compute, 0, 10), second = span(compute, 12, 20);
  first.kind = second.kind = SpanKind::step;
  const std::vector<Span> spans = {span(compute, 0, 9),   first,
                                   span(compute, 10, 12), span(communication, 8, 15),
                                   span(compute, 13, 20), second};
  const Overlap overlap = measure_overlap(inside_of_steps(spans));
  CHECK(ms(overlap.compute) == Approx(9 + 7));
  CHECK(ms(overlap.communication) == Approx(2 + 3));
  CHECK(ms(overlap.hidden) == Approx(1 + 2));
}

TEST_CASE("overlap: two operations at a time count once, and without any the share is 0", "[spans]") {
  using enum Track;
  const Overlap overlap = measure_overlap(std::vector<Span>{
      span(communication, 5, 9), span(communication, 1, 6), span(compute, 2, 3), span(compute, 8, 20)});
  CHECK(ms(overlap.communication) == Approx(8));
  CHECK(ms(overlap.hidden) == Approx(2));
  CHECK(measure_overlap({}).hidden_share() == 0);
}
