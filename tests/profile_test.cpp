#include "core/profile.h"

#include <algorithm>
#include <thread>

#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/random.h"
#include "nn/layers.h"
#include "tests/catch.h"

using namespace ringtape;

namespace {

using std::chrono::milliseconds;
constexpr SpanClock::time_point kZero{std::chrono::seconds(5000)};

Span span(SpanKind kind, const char* name, int depth, int begin, int end, Track track = Track::compute) {
  Span made;
  made.track = track;
  made.kind = kind;
  made.name = name;
  made.begin = kZero + milliseconds(begin);
  made.end = kZero + milliseconds(end);
  made.depth = depth;
  return made;
}

const ProfileRow& row(const Profile& profile, const std::string& name) {
  const auto found = std::find_if(profile.rows.begin(), profile.rows.end(),
                                  [&](const ProfileRow& candidate) { return candidate.name == name; });
  if (found == profile.rows.end()) fail("no row {}", name);
  return *found;
}

SpanClock::duration time_of(const Profile& profile, const std::string& phase) {
  for (const ProfilePhase& candidate : profile.phases) {
    if (candidate.name == phase) return candidate.time;
  }
  fail("no phase {}", phase);
}

/// Two steps of 100 and 50 ms, in the order in which the spans end.
std::vector<Span> two_steps() {
  using enum SpanKind;
  Span linear = span(operation, "linear", 3, 10, 30);
  linear.shapes = "2x3, 4x3";
  linear.work = {.flops = 40'000'000, .bytes = 2'000'000};
  Span last = linear;
  last.begin = kZero + milliseconds(110);
  last.end = kZero + milliseconds(120);
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

std::int64_t flops_of(const SpanRecording& recording, const std::string& name) {
  std::int64_t sum = 0;
  for (const Span& made : recording.spans()) sum += made.name == name ? made.work.flops : 0;
  return sum;
}

std::int64_t bytes_of(const SpanRecording& recording, const std::string& name) {
  std::int64_t sum = 0;
  for (const Span& made : recording.spans()) sum += made.name == name ? made.work.bytes : 0;
  return sum;
}

}  // namespace

TEST_CASE("profile: self and total times by operation", "[profile]") {
  const Profile profile = make_profile({.spans = two_steps(), .wall = milliseconds(155}));
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

TEST_CASE("profile: phases share out the step", "[profile]") {
  const Profile profile = make_profile({.spans = two_steps(), .wall = milliseconds(155}));
  CHECK(time_of(profile, "forward") == milliseconds(35));
  CHECK(time_of(profile, "backward") == milliseconds(25));
  CHECK(time_of(profile, "waiting") == milliseconds(15));
  CHECK(time_of(profile, "other") == milliseconds(75));  // with an operation in no phase
  CHECK(profile.phases.size() == 4);
  CHECK(profile.phases.back().name == "other");
  CHECK(profile.share_of_phase("backward") == Approx(25.0 / 155));
  CHECK(profile.share_of_phase("data") == 0);
}

TEST_CASE("profile: without a step there is nothing", "[profile]") {
  const std::vector<Span> spans = {span(SpanKind::operation, "alone", 0, 0, 5)};
  const Profile profile = make_profile({.spans = spans, .wall = {}});
  CHECK(profile.steps == 0);
  CHECK(profile.rows.empty());
}

TEST_CASE("profile: a layer in a layer counts once in the total", "[profile]") {
  using enum SpanKind;
  const std::vector<Span> spans = {span(layer, "layer 0", 2, 10, 20), span(layer, "model", 1, 0, 30),
                                   span(step, "step 1", 0, 0, 30)};
  const ProfileRow layers = row(make_profile({.spans = spans, .wall = milliseconds(30})), "(layers themselves)");
  CHECK(layers.calls == 2);
  CHECK(layers.self == milliseconds(30));
  CHECK(layers.total == milliseconds(30));
}

TEST_CASE("profile: what is inside of a span that began before the recording is in no step", "[profile]") {
  using enum SpanKind;
  const std::vector<Span> spans = {span(operation, "inside", 1, 0, 5), span(step, "step 2", 0, 10, 20)};
  const Profile profile = make_profile({.spans = spans, .wall = milliseconds(10}));
  REQUIRE(profile.rows.size() == 1);
  CHECK(profile.rows[0].self == milliseconds(10));
}

TEST_CASE("profile: sorted by a column", "[profile]") {
  Profile profile = make_profile({.spans = two_steps(), .wall = milliseconds(155}));
  sort_rows(profile, "flops");
  CHECK(profile.rows[0].name == "linear");
  sort_rows(profile, "total");
  CHECK(profile.rows[0].name == "(step itself)");
  CHECK(profile.rows[1].name == "(backward itself)");
  sort_rows(profile, "name");
  CHECK(profile.rows.back().name == "wait");
  for (const std::string_view column : profile_columns()) CHECK_NOTHROW(sort_rows(profile, column));
  CHECK_THROWS_WITH(sort_rows(profile, "colour"), ContainsSubstring("no column is called 'colour'"));
}

TEST_CASE("profile: the report", "[profile]") {
  using enum SpanKind;
  const std::vector<Span> spans = {span(operation, "optimizer step", 2, 2, 20),
                                   span(phase, "optimizer", 1, 2, 20), span(step, "step 1", 0, 0, 100)};
  const std::string report = profile_report(make_profile({.spans = spans, .wall = milliseconds(100})));
  CHECK_THAT(report, ContainsSubstring("optimizer step                          1     18.000   18.0%"));
  CHECK_THAT(report, ContainsSubstring("forward 0.0%, backward 0.0%, optimizer 18.0% of a step."));
  CHECK_THAT(report, ContainsSubstring("The optimizer takes more than 15%"));
  CHECK_THAT(report, ContainsSubstring("More than a tenth of a step lies in no phase"));
  const std::vector<Span> less = {span(phase, "optimizer", 1, 2, 15), span(phase, "forward", 1, 15, 97),
                                  span(step, "step 1", 0, 0, 100)};
  const std::string modest = profile_report(make_profile({.spans = less, .wall = milliseconds(100})));
  CHECK_THAT(modest, !ContainsSubstring("more than"));
  CHECK_THAT(modest, !ContainsSubstring("More than"));
}

TEST_CASE("profile: FLOPs and bytes of a linear layer", "[profile]") {
  manual_seed(1);
  const Tensor weight = randn({5, 3}).set_requires_grad(true), bias = randn({5}).set_requires_grad(true);
  const Tensor x = randn({4, 3}).set_requires_grad(true);
  SpanRecording recording;
  sum(linear(x, weight, bias)).backward();
  sum(linear(x.detach(), weight, bias)).backward();
  recording.stop();
  // m = 4, n = 5, k = 3: each product is 2 * 60 FLOPs. x 12, weight 15, bias 5, y 20 elements.
  CHECK(flops_of(recording, "linear") == 2 * 120);
  CHECK(bytes_of(recording, "linear") == 2 * 4 * (12 + 15 + 5 + 20));
  // dx, dweight and dbias, which is 20 additions; then dweight and dbias alone, added to what is there.
  CHECK(flops_of(recording, "linear backward") == (120 + 120 + 20) + (120 + 20));
  const std::int64_t dx = 20 + 15 + 12, dweight = 20 + 12 + 15, dbias = 20 + 5;
  CHECK(bytes_of(recording, "linear backward") == 4 * (dx + dweight + dbias + dweight + 15 + dbias + 5));
  CHECK(bytes_of(recording, "sum") == 2 * 4 * (20 + 1));
  CHECK(flops_of(recording, "sum") == 2 * 20);
  const auto forward = std::find_if(recording.spans().begin(), recording.spans().end(),
                                    [](const Span& made) { return made.name == "linear"; });
  REQUIRE(forward != recording.spans().end());
  CHECK(forward->shapes == "4x3, 5x3, 5");
}

TEST_CASE("profile: FLOPs and bytes of other operations", "[profile]") {
  manual_seed(1);
  const Tensor a = randn({6, 4}).set_requires_grad(true), b = randn({4, 7}).set_requires_grad(true);
  const Tensor targets = from_vector(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}, {6});
  SpanRecording recording;
  const Tensor y = relu(matmul(a, b));
  cross_entropy(scale(multiply(y, y), 0.5), targets, {.reduction = Reduction::sum}).backward();
  recording.stop();
  CHECK(flops_of(recording, "matmul") == 2 * 6 * 7 * 4);
  CHECK(bytes_of(recording, "matmul") == 4 * (24 + 28 + 42));
  CHECK(flops_of(recording, "matmul backward") == 2 * 2 * 6 * 7 * 4);
  CHECK(bytes_of(recording, "matmul backward") == 4 * 2 * (24 + 28 + 42));
  CHECK(bytes_of(recording, "relu") == 4 * 2 * 42);
  CHECK(bytes_of(recording, "relu backward") == 4 * 3 * 42);
  CHECK(flops_of(recording, "multiply") == 42);
  CHECK(bytes_of(recording, "multiply") == 4 * 3 * 42);
  // The second contribution to y's gradient reads the first.
  CHECK(bytes_of(recording, "multiply backward") == 4 * (3 + 4) * 42);
  CHECK(bytes_of(recording, "scale") == 4 * 2 * 42);
  CHECK(bytes_of(recording, "cross_entropy") ==
        4 * 2 * 42 + 8 * 6 + 4);  // fused: the gradient is written too
}

TEST_CASE("profile: layers by name, and recomputation as what it runs", "[profile]") {
  const auto model = make_mlp({3, 4, 4, 2});
  model->set_recompute(2);
  const Tensor x = full({2, 3}, 0.25);
  SpanRecording recording;
  sum((*model)(x)).backward();
  recording.stop();
  const auto count = [&](const char* name) {
    return std::count_if(recording.spans().begin(), recording.spans().end(),
                         [name](const Span& made) { return made.name == name; });
  };
  CHECK(count("model") == 1);
  CHECK(count("layer 0") == 2);  // with its second run
  CHECK(count("layer 4") == 1);
  CHECK(count("checkpoint backward") == 2);
  CHECK(count("linear") == 5);
  CHECK(count("linear backward") == 3);
}

TEST_CASE("profile: the rows of training steps add up to their time", "[profile]") {
  manual_seed(3);
  const auto model = make_mlp({256, 512, 10});
  const Tensor x = randn({128, 256});
  const Tensor targets = full({128}, 3, DType::i64);
  SpanClock::duration wall{};
  SpanRecording recording;
  for (int i = 0; i < 5; ++i) {
    const SpanClock::time_point begin = SpanClock::now();
    {
      const SpanScope step(SpanKind::step, "step");
      Tensor loss;
      {
        const SpanScope phase(SpanKind::phase, "forward");
        loss = cross_entropy((*model)(x), targets);
      }
      const SpanScope phase(SpanKind::phase, "backward");
      loss.backward();
    }
    wall += SpanClock::now() - begin;
  }
  recording.stop();
  const Profile profile = make_profile({.spans = recording.spans(), .wall = wall});
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
  const auto share = static_cast<double>(rows.count()) / static_cast<double>(wall.count());
  CHECK(share <= 1);
  CHECK(share >= 0.97);
}

TEST_CASE("profile: nobody asks, and nothing is kept", "[profile]") {
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
