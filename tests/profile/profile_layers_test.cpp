#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/memory.h"
#include "nn/layers.h"
#include "profile/profile.h"
#include "tests/support/catch.h"
#include "tests/support/profile_spans.h"

using namespace ringtape;
using namespace ringtape::test;
using std::chrono::milliseconds;

TEST_CASE("profile: layers by name, and recomputed operations", "[profile]") {
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
  CHECK(count("recompute backward") == 2);
  CHECK(count("linear_relu") == 4);
  CHECK(count("linear_relu backward") == 2);
  CHECK(count("linear") == 1);
  CHECK(count("linear backward") == 1);
}

namespace {

const ProfileLayer& layer_of(const Profile& profile, const std::string& name) {
  for (const ProfileLayer& layer : profile.layers) {
    if (layer.name == name) return layer;
  }
  fail("no layer '{}'", name);
}

MemoryEvent event(int at, std::int64_t bytes, const char* block) {
  return {kZero + milliseconds(at), MemoryCategory::activations, bytes, block, {}};
}

/// forward from 0 to 40 ms with layer "0" from 5 to 25 and an operation in it; backward from 40 to 90 with an
/// operation of the same layer.
std::vector<Span> one_step() {
  using enum SpanKind;
  std::vector<Span> spans = {span(operation, "linear", 3, 10, 20),
                             span(layer, "layer 0", 2, 5, 25),
                             span(operation, "loss", 2, 30, 36),
                             span(phase, "forward", 1, 0, 40),
                             span(operation, "linear backward", 2, 50, 80),
                             span(phase, "backward", 1, 40, 90),
                             span(operation, "optimizer step", 1, 90, 98),
                             span(step, "step 1", 0, 0, 100)};
  for (const std::size_t i : {0, 1, 4}) spans[i].layer = "0";
  spans[0].work = {.flops = 10, .bytes = 100};
  spans[4].work = {.flops = 20, .bytes = 200};
  return spans;
}

}  // namespace

TEST_CASE("profile: forward and backward by layer", "[profile]") {
  std::vector<SpanClock::duration> device(8);
  device[4] = milliseconds(3);
  const Profile profile =
      make_profile({.spans = one_step(), .wall = milliseconds(100), .device_times = device});
  REQUIRE(profile.layers.size() == 2);
  CHECK(profile.layers[1].name.empty());  // though the phases began before the layer
  CHECK(profile.layers[1].forward == milliseconds(20));
  CHECK(profile.layers[1].backward == milliseconds(20));
  const ProfileLayer& layer = layer_of(profile, "0");
  CHECK(layer.forward == milliseconds(20));
  CHECK(layer.backward == milliseconds(30));
  CHECK(layer.backward_device == milliseconds(3));
  CHECK(layer.work.flops == 30);
  CHECK(layer.work.bytes == 300);
  CHECK(row(profile, "linear").layer == "0");
  CHECK(row(profile, "loss").layer.empty());
}

TEST_CASE("profile: memory of operations, what a layer keeps, and the peak", "[profile]") {
  const char blocks[4] = {};
  const std::vector<MemoryEvent> events = {event(12, 512, &blocks[0]),   // linear allocates,
                                           event(14, 256, &blocks[1]),   // and allocates for a while
                                           event(18, -256, &blocks[1]),  //
                                           event(22, 1024, &blocks[2]),  // its layer allocates
                                           event(37, -1024, &blocks[2]), event(60, -512, &blocks[0]),
                                           event(70, 2048, &blocks[3])};
  const Profile profile = make_profile(
      {.spans = one_step(), .wall = milliseconds(100), .memory = events, .memory_at_start = 10'000});
  CHECK(row(profile, "linear").memory == 512);
  CHECK(row(profile, "(layers themselves)").memory == 1024);
  CHECK(row(profile, "(forward itself)").memory == -1024);
  CHECK(row(profile, "linear backward").memory == 2048 - 512);
  CHECK(layer_of(profile, "0").kept == 512);
  CHECK(layer_of(profile, "").kept == 0);
  CHECK(profile.memory_peak == 10'000 + 2048);
}

TEST_CASE("profile: the peak is that of the steps, not of the time between them", "[profile]") {
  const char blocks[2] = {};
  std::vector<Span> spans = one_step();
  spans.push_back(span(SpanKind::step, "step 2", 0, 200, 300));
  const std::vector<MemoryEvent> events = {event(20, 512, &blocks[0]), event(130, 4096, &blocks[1]),
                                           event(170, -4096, &blocks[1]), event(320, 9000, &blocks[1])};
  const auto peak = [&](std::size_t at_start) {
    return make_profile(
               {.spans = spans, .wall = milliseconds(200), .memory = events, .memory_at_start = at_start})
        .memory_peak;
  };
  CHECK(peak(100) == 612);
  // Memory that an evaluation leaves is live in the next step.
  spans[7].begin = spans[7].end;
  spans.erase(spans.begin(), spans.begin() + 7);
  CHECK(peak(100) == 612);
}

TEST_CASE("profile: memory that another thread allocates is no operation's", "[profile]") {
  std::vector<MemoryEvent> events = {event(12, 512, "")};
  events[0].thread = std::this_thread::get_id();  // the spans have no thread
  const Profile profile = make_profile({.spans = one_step(), .wall = milliseconds(100), .memory = events});
  CHECK(row(profile, "linear").memory == 0);
  CHECK(profile.memory_peak == 512);
}

TEST_CASE("profile: backward operations have the names of their layers, also of recomputed and nested ones",
          "[profile]") {
  const auto inner = std::make_shared<Sequential>();
  inner->push_back(std::make_shared<Linear>(4, 4));
  inner->push_back(std::make_shared<ReLU>());
  const auto model = std::make_shared<Sequential>();
  model->push_back(std::make_shared<Linear>(3, 4));
  model->push_back(inner);
  model->push_back(std::make_shared<Linear>(4, 2));
  const bool recomputes = GENERATE(false, true);
  if (recomputes) model->set_recompute(2);
  const Tensor loss = sum((*model)(full({2, 3}, 0.25)));  // before the recording
  SpanRecording recording;
  loss.backward();
  recording.stop();
  std::vector<std::string> layers;
  for (const Span& made : recording.spans()) {
    if (made.name.starts_with("linear") && made.name.ends_with(" backward")) layers.emplace_back(made.layer);
  }
  CHECK(layers == std::vector<std::string>{"2", "1.0", "0"});
}

TEST_CASE("profile: layers keep what backward needs", "[profile]") {
  const auto model = make_mlp({64, 128, 64});
  const Tensor x = full({16, 64}, 0.25);
  SpanRecording recording;
  MemoryRecording memory({});
  {
    const SpanScope step(SpanKind::step, "step");
    Tensor loss;
    {
      const SpanScope phase(SpanKind::phase, "forward");
      loss = sum((*model)(x));
    }
    const SpanScope phase(SpanKind::phase, "backward");
    loss.backward();
  }
  memory.stop();
  recording.stop();
  const Profile profile =
      make_profile({.spans = recording.spans(), .wall = milliseconds(1), .memory = memory.events()});
  CHECK(layer_of(profile, "0").kept == 4 * 16 * 128);  // after ReLU, for layer 2's backward as well
  std::int64_t sum_of_rows = 0;
  for (const ProfileRow& each : profile.rows) sum_of_rows += each.memory;
  std::int64_t sum_of_events = 0;
  for (const MemoryEvent& each : memory.events()) sum_of_events += each.bytes;
  CHECK(sum_of_rows == sum_of_events);
}
