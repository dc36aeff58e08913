#include <set>

#include "tests/support/catch.h"
#include "tests/support/profile_spans.h"
#include "tests/support/xml.h"
#include "train/report/step_timeline.h"

namespace ringtape::test {
namespace {

using namespace report;

/// A step of 100 ms with a phase that has an operation, and a span outside of the step.
std::vector<Span> one_step() {
  using enum SpanKind;
  return {span(step, "step 7", 0, 0, 100),       span(phase, "forward", 1, 0, 60),
          span(operation, "linear", 2, 10, 30),  span(operation, "short", 2, 40, 40),
          span(operation, "later", 0, 110, 120), span(operation, "sum", 1, 70, 90, Track::communication)};
}

std::vector<LaneSpan> lanes(const std::vector<Span>& spans) {
  return lanes_of(spans, {}, *find_step(spans, 7), kZero);
}

}  // namespace

TEST_CASE("a step is found by its number", "[report]") {
  const std::vector<Span> spans = one_step();
  CHECK(find_step(spans, 7) == &spans[0]);
  CHECK(find_step(spans, 8) == nullptr);
}

TEST_CASE("a step's lanes hold the spans in it, the longest first", "[report]") {
  const std::vector<LaneSpan> found = lanes(one_step());
  REQUIRE(found.size() == 3);
  CHECK((found[0].lane == Lane::phases && found[0].name == "forward" && found[0].begin == 0.0));
  CHECK((found[1].lane == Lane::operations && found[1].name == "linear" && found[1].begin == 0.01));
  CHECK(found[1].end == 0.03);
  CHECK(found[1].colour == colour_of_phase("forward"));
  CHECK((found[2].lane == Lane::communication && found[2].name == "sum"));
}

TEST_CASE("a step shows its part of communication that continues across steps", "[report]") {
  std::vector<Span> spans = {span(SpanKind::step, "step 7", 0, 0, 100)};
  spans.push_back(span(SpanKind::operation, "gather 1", 0, -30, 20, Track::communication));
  spans.push_back(span(SpanKind::operation, "gather 2", 0, 90, 140, Track::communication));
  spans.push_back(span(SpanKind::operation, "gather 3", 0, 100, 140, Track::communication));
  const std::vector<LaneSpan> found = lanes(spans);
  REQUIRE(found.size() == 2);
  CHECK((found[0].name == "gather 1" && found[0].begin == 0.0 && found[0].end == 0.02));
  CHECK((found[1].name == "gather 2" && found[1].begin == 0.09 && found[1].end == 0.1));
}

TEST_CASE("a GPU's activities during the step have a separate lane", "[report]") {
  const std::vector<Span> spans = one_step();
  std::vector<DeviceActivity> activities(2);
  activities[0].name = "gemm_f32";
  activities[0].begin = kZero + std::chrono::milliseconds(90);
  activities[0].end = kZero + std::chrono::milliseconds(105);
  activities[1].name = "before";
  activities[1].begin = kZero - std::chrono::milliseconds(20);
  activities[1].end = kZero;
  const std::vector<LaneSpan> found = lanes_of(spans, activities, spans[0], kZero);
  REQUIRE(found.size() == 4);
  CHECK((found[3].lane == Lane::device && found[3].name == "gemm_f32"));
}

TEST_CASE("an operation has the colour of the innermost phase around it", "[report]") {
  std::vector<Span> spans = one_step();
  spans.push_back(span(SpanKind::phase, "optimizer", 2, 5, 35));  // inside of forward
  for (const LaneSpan& found : lanes(spans)) {
    if (found.name == "linear") CHECK(found.colour == colour_of_phase("optimizer"));
  }
  CHECK(phases_of_operations(spans, spans[0]).at("linear") == "optimizer");
  CHECK(phases_of_operations(one_step(), one_step()[0]).at("linear") == "forward");
}

TEST_CASE("each phase has a different colour", "[report]") {
  std::set<int> colours;
  for (const char* name : {"data", "forward", "backward", "all-reduce", "waiting", "optimizer", "other"}) {
    colours.insert(colour_of_phase(name));
  }
  CHECK(colours.size() == 7);
}

TEST_CASE("a bar has its name if there is room, and a narrow one has no outline", "[report]") {
  const std::vector<std::vector<LaneSpan>> rank = {
      {{Lane::operations, 0, 0.05, 0, "a wide one"}, {Lane::operations, 0.06, 0.0601, 1, "narrow"}}};
  const std::string svg = draw_timeline(rank, 0.1).element();
  CHECK_THAT(svg, ContainsSubstring(">a wide one</text>") && ContainsSubstring("class=\"span s0\""));
  CHECK_THAT(svg, !ContainsSubstring(">narrow</text>") && ContainsSubstring("class=\"s1\""));
  CHECK((legend_of(rank) == std::vector<std::pair<std::string, int>>{{"forward", 0}, {"backward", 1}}));
}

TEST_CASE("lanes are the same after conversion to text and back", "[report]") {
  const std::vector<LaneSpan> sent = lanes(one_step()), got = lanes_from_text(to_text(sent));
  REQUIRE(got.size() == sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CHECK(got[i].lane == sent[i].lane);
    CHECK(got[i].begin == sent[i].begin);
    CHECK(got[i].end == sent[i].end);
    CHECK(got[i].colour == sent[i].colour);
    CHECK(got[i].name == sent[i].name);
  }
  CHECK(lanes_from_text("").empty());
}

TEST_CASE("no more than 500 spans of a lane are drawn", "[report]") {
  std::vector<Span> spans = {span(SpanKind::step, "step 7", 0, 0, 2000)};
  for (int i = 0; i < 1000; ++i) spans.push_back(span(SpanKind::operation, "relu", 1, 2 * i, 2 * i + 1));
  CHECK(lanes(spans).size() == 500);
}

TEST_CASE("the timeline has a bar for each span, at its times", "[report]") {
  const std::vector<std::vector<LaneSpan>> ranks = {lanes(one_step()), {}};
  const std::string svg = draw_timeline(ranks, 0.1).element();
  CHECK(xml_error(svg) == "");
  CHECK_THAT(svg, ContainsSubstring(">rank 0</text>") && ContainsSubstring(">rank 1</text>"));
  // 896 pixels for 100 ms from 112 on: linear from 10 to 30 ms
  CHECK_THAT(svg, ContainsSubstring("<rect x=\"201.6\"") && ContainsSubstring("width=\"179.2\""));
  CHECK(xml_error(draw_timeline({}, 0).element()) == "");
}

}  // namespace ringtape::test
