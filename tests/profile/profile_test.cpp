#include "profile/profile.h"

#include <algorithm>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/random.h"
#include "nn/layers.h"
#include "tests/support/catch.h"
#include "tests/support/profile_spans.h"

using namespace ringtape;
using namespace ringtape::test;
using std::chrono::milliseconds;

TEST_CASE("profile: self and total times by operation", "[profile]") {
  const Profile profile = make_profile({.spans = two_steps(), .wall = milliseconds(155)});
  CHECK(profile.steps == 2);
  REQUIRE(profile.rows.size() == 7);
  const ProfileRow& linear = row(profile, "linear");
  CHECK(linear.calls == 2);
  CHECK(linear.self == milliseconds(30));
  CHECK(linear.total == milliseconds(30));
  CHECK(linear.shapes == "2x3, 4x3");
  CHECK(linear.gflops_per_second() == Approx(80e6 / 0.030 * 1e-9));
  CHECK(linear.gbytes_per_second() == Approx(4e6 / 0.030 * 1e-9));
  CHECK(row(profile, "linear backward").self == milliseconds(15));
  CHECK(row(profile, "linear backward").total == milliseconds(30));
  CHECK(row(profile, "wait").self == milliseconds(15));
  CHECK(row(profile, "(layers themselves)").self == milliseconds(4));
  CHECK(row(profile, "(forward itself)").self == milliseconds(11));
  CHECK(row(profile, "(backward itself)").self == milliseconds(10));
  CHECK(row(profile, "(step itself)").self == milliseconds(25 + 40));
  CHECK(profile.idle() == milliseconds(5));
  CHECK(profile.rows[0].name == "(step itself)");  // most self time first
}

TEST_CASE("profile: phases divide the step", "[profile]") {
  const Profile profile = make_profile({.spans = two_steps(), .wall = milliseconds(155)});
  CHECK(time_of(profile, "forward") == milliseconds(35));
  CHECK(time_of(profile, "backward") == milliseconds(25));
  CHECK(time_of(profile, "waiting") == milliseconds(15));
  CHECK(time_of(profile, "other") == milliseconds(75));  // with an operation in no phase
  CHECK(profile.phases.size() == 4);
  CHECK(profile.phases.back().name == "other");
  CHECK(profile.share_of_phase("backward") == Approx(25.0 / 155));
  CHECK(profile.share_of_phase("data") == 0);
}

TEST_CASE("profile: without a step the profile is empty", "[profile]") {
  const std::vector<Span> spans = {span(SpanKind::operation, "alone", 0, 0, 5)};
  const Profile profile = make_profile({.spans = spans, .wall = {}});
  CHECK(profile.steps == 0);
  CHECK(profile.rows.empty());
}

TEST_CASE("profile: a layer in a layer counts once in the total", "[profile]") {
  using enum SpanKind;
  const std::vector<Span> spans = {span(layer, "layer 0", 2, 10, 20), span(layer, "model", 1, 0, 30),
                                   span(step, "step 1", 0, 0, 30)};
  const ProfileRow layers =
      row(make_profile({.spans = spans, .wall = milliseconds(30)}), "(layers themselves)");
  CHECK(layers.calls == 2);
  CHECK(layers.self == milliseconds(30));
  CHECK(layers.total == milliseconds(30));
}

TEST_CASE("profile: a span inside of one that began before the recording is in no step", "[profile]") {
  using enum SpanKind;
  const std::vector<Span> spans = {span(operation, "inside", 1, 0, 5), span(step, "step 2", 0, 10, 20)};
  const Profile profile = make_profile({.spans = spans, .wall = milliseconds(10)});
  REQUIRE(profile.rows.size() == 1);
  CHECK(profile.rows[0].self == milliseconds(10));
}

TEST_CASE("profile: the rows of training steps add up to their time", "[profile]") {
  manual_seed(3);
  const auto model = make_mlp({256, 512, 10});
  const Tensor x = randn({128, 256});
  const Tensor targets = full({128}, 3, DType::i64);
  SpanRecording recording;
  for (int i = 0; i < 5; ++i) {
    const SpanScope step(SpanKind::step, "step");
    Tensor loss;
    {
      const SpanScope phase(SpanKind::phase, "forward");
      loss = cross_entropy((*model)(x), targets);
    }
    const SpanScope phase(SpanKind::phase, "backward");
    loss.backward();
  }
  recording.stop();
  SpanClock::duration steps{};
  for (const Span& span : recording.spans()) {
    if (span.kind == SpanKind::step) steps += span.end - span.begin;
  }
  const Profile profile = make_profile({.spans = recording.spans(), .wall = steps});
  CHECK(profile.steps == 5);
  CHECK(row(profile, "linear").calls == 5);  // the two layers differ in shapes
  SpanClock::duration rows{}, phases{};
  for (const ProfileRow& made : profile.rows) {
    CHECK(made.self.count() >= 0);
    CHECK(made.self <= made.total);
    rows += made.self;
  }
  for (const ProfilePhase& phase : profile.phases) phases += phase.time;
  CHECK(rows == phases);
  CHECK(rows == steps);
}

TEST_CASE("profile: outside of a recording nothing is kept", "[profile]") {
  if (spans_are_wanted()) return;  // under Nsight
  add_work({.flops = 1, .bytes = 1});
  const SpanScope outside(SpanKind::phase, "outside");
  SpanRecording recording;
  add_work({.flops = 1, .bytes = 1});  // of no span
  { const SpanScope inside(SpanKind::operation, "inside"); }
  recording.stop();
  CHECK_FALSE(spans_are_wanted());
  REQUIRE(recording.spans().size() == 1);
  CHECK(recording.spans()[0].depth == 0);
  CHECK(recording.spans()[0].work.flops == 0);
}
