#include "profile/chrome_trace.h"

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "autograd/ops.h"
#include "core/random.h"
#include "nn/layers.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

using Json = nlohmann::json;
constexpr SpanClock::time_point kZero{std::chrono::seconds(5000)};

SpanClock::time_point at(double milliseconds) {
  return kZero + std::chrono::nanoseconds(static_cast<std::int64_t>(milliseconds * 1e6));
}

Span span(Track track, const char* name, double begin, double end) {
  return {track, name, at(begin), at(end), {}};
}

Span communication(double begin, double end) {
  return span(Track::communication, "exchange", begin, end);
}

std::vector<Json> of_phase(const Json& trace, const char* phase) {
  std::vector<Json> events;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) events.push_back(event);
  }
  return events;
}

/// The names of the rows of a process, by number.
std::map<int, std::string> rows_of(const Json& trace, int process) {
  std::map<int, std::string> rows;
  for (const Json& event : of_phase(trace, "M")) {
    if (event["pid"] == process && event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
  }
  return rows;
}

/// Checks complete events for viewers: all numbers, a name for each row, and that events of a row are
/// disjoint or nested.
void check_complete_events(const Json& trace) {
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> rows;
  for (const Json& event : of_phase(trace, "X")) {
    REQUIRE(event["name"].is_string());
    for (const char* number : {"ts", "dur", "pid", "tid"}) REQUIRE(event[number].is_number());
    CHECK(event["dur"] >= 0);
    const auto begin = static_cast<std::int64_t>(std::lround(event["ts"].get<double>() * 1e3));
    const auto length = static_cast<std::int64_t>(std::lround(event["dur"].get<double>() * 1e3));
    rows[{event["pid"], event["tid"]}].emplace_back(begin, begin + length);
    CHECK(rows_of(trace, event["pid"]).contains(event["tid"]));
  }
  constexpr std::int64_t kRounding = 2;  // nanoseconds
  for (const auto& [row, events] : rows) {
    for (const auto& [begin, end] : events) {
      const bool cuts_one =
          std::any_of(events.begin(), events.end(), [begin = begin, end = end](const auto& other) {
            return begin + kRounding < other.first && other.first + kRounding < end &&
                   end + kRounding < other.second;
          });
      CHECK_FALSE(cuts_one);
    }
  }
}

void check_counters(const Json& trace) {
  double last = 0;
  for (const Json& event : of_phase(trace, "C")) {
    CHECK(event["ts"].get<double>() >= last);
    last = event["ts"];
    CHECK(event["args"].size() == kMemoryCategories);
    for (const auto& [category, bytes] : event["args"].items()) CHECK(bytes >= 0);
  }
}

/// Checks that every arrow begins and ends at the beginning of an event of its row.
void check_arrows(const Json& trace) {
  const std::vector<Json> complete = of_phase(trace, "X"), begins = of_phase(trace, "s"),
                          ends = of_phase(trace, "f");
  REQUIRE(begins.size() == ends.size());
  for (std::size_t i = 0; i < begins.size(); ++i) {
    CHECK(begins[i]["id"] == ends[i]["id"]);
    for (const Json& end : {begins[i], ends[i]}) {
      CHECK(std::any_of(complete.begin(), complete.end(), [&end](const Json& event) {
        return event["pid"] == end["pid"] && event["tid"] == end["tid"] && event["ts"] == end["ts"];
      }));
    }
  }
}

Json parse(const std::vector<std::string>& events) {
  const Json trace = Json::parse(chrome_trace(events));
  check_complete_events(trace);
  check_counters(trace);
  check_arrows(trace);
  return trace;
}

}  // namespace

TEST_CASE("chrome trace: spans of two processes", "[chrome_trace]") {
  const std::vector<Span> first = {span(Track::compute, "forward \"1\" \\ \n\xff", 1, 3.5)};
  Span all_reduce = span(Track::communication, "all_reduce #7", 2, 4);
  all_reduce.arguments = {{"bytes", 4096}, {"sequence", 7}};
  const std::vector<Span> second = {all_reduce};
  const Json trace = parse({chrome_events({.name = "rank 0", .zero = kZero, .spans = first}),
                            chrome_events({.number = 1, .name = "rank 1", .zero = kZero, .spans = second})});
  const std::vector<Json> complete = of_phase(trace, "X");
  REQUIRE(complete.size() == 2);
  CHECK(complete[0]["name"] == "forward \"1\" \\ \n\xEF\xBF\xBD");  // U+FFFD for bytes that are not UTF-8
  CHECK(complete[0]["pid"] == 0);
  CHECK(complete[0]["ts"].get<double>() == Approx(1000));  // microseconds
  CHECK(complete[0]["dur"].get<double>() == Approx(2500));
  CHECK(complete[1]["pid"] == 1);
  CHECK(complete[1]["args"]["bytes"] == 4096);
  CHECK(complete[1]["args"]["sequence"] == 7);
  CHECK(rows_of(trace, 0) == std::map<int, std::string>{{0, "compute"}});
  CHECK(rows_of(trace, 1) == std::map<int, std::string>{{0, "communication"}});
  const std::vector<Json> names = of_phase(trace, "M");
  CHECK(std::any_of(names.begin(), names.end(), [](const Json& event) {
    return event["name"] == "process_name" && event["pid"] == 1 && event["args"]["name"] == "rank 1";
  }));
}

TEST_CASE("chrome trace: overlapping spans go to separate rows", "[chrome_trace]") {
  const std::vector<Span> spans = {communication(1, 4), communication(2, 3),   communication(2, 5),
                                   communication(3, 6), communication(4, 4.5), communication(6, 7)};
  const Json trace = parse({chrome_events({.name = "rank 0", .zero = kZero, .spans = spans})});
  CHECK(of_phase(trace, "X").size() == spans.size());
  CHECK(rows_of(trace, 0) ==
        std::map<int, std::string>{{0, "communication"}, {1, "communication 2"}, {2, "communication 3"}});
}

TEST_CASE("chrome trace: a row for each group of ranks that communicates", "[chrome_trace]") {
  std::vector<Span> spans = {communication(1, 4), communication(2, 3), communication(5, 6)};
  spans[0].group = "data";
  spans[1].group = "tensor";
  const Json trace = parse({chrome_events({.name = "rank 0", .zero = kZero, .spans = spans})});
  CHECK(rows_of(trace, 0) == std::map<int, std::string>{{0, "communication, data"},
                                                        {1, "communication, tensor"},
                                                        {2, "communication"}});
}

TEST_CASE("chrome trace: a row for each thread, the thread of the steps first", "[chrome_trace]") {
  std::thread other([] {});
  Span loading = span(Track::compute, "read", 0, 5), step = span(Track::compute, "step 3", 1, 6);
  Span wait = span(Track::waiting, "wait", 2, 3);
  loading.thread = other.get_id();
  other.join();
  step.thread = wait.thread = std::this_thread::get_id();
  step.kind = SpanKind::step;
  const std::vector<Span> spans = {wait, loading, step};
  const Json trace = parse({chrome_events({.name = "rank 0", .zero = kZero, .spans = spans})});
  CHECK(rows_of(trace, 0) ==
        std::map<int, std::string>{{0, "compute"}, {1, "waiting"}, {2, "compute, thread 2"}});
}

TEST_CASE("chrome trace: streams of a device, with arrows from the spans", "[chrome_trace]") {
  Span linear = span(Track::compute, "linear", 1, 2);
  linear.id = 5;
  const std::vector<Span> spans = {linear};
  DeviceActivity sgemm;
  sgemm.name = "sgemm<float>";
  sgemm.begin = at(3);
  sgemm.end = at(8);
  sgemm.stream = 7;
  sgemm.grid = {4, 2, 1};
  sgemm.block = {256, 1, 1};
  sgemm.span = 5;
  DeviceActivity all_reduce = sgemm;
  all_reduce.name = "ncclDevKernel_AllReduce";
  all_reduce.begin = at(3.5);
  all_reduce.stream = 13;
  all_reduce.span = 77;  // from before the recording
  DeviceActivity copy;
  copy.work = DeviceWork::copy;
  copy.name = "copy host to device";
  copy.bytes = 1024;
  copy.begin = at(8);
  copy.end = at(9);
  copy.stream = 7;
  copy.graph_node = 12;
  const std::vector<DeviceActivity> activities = {sgemm, all_reduce, copy};
  const Json trace =
      parse({chrome_events({.name = "rank 0", .zero = kZero, .spans = spans, .activities = activities})});
  CHECK(rows_of(trace, 0) ==
        std::map<int, std::string>{{0, "compute"}, {1, "stream 7"}, {2, "communication, stream 13"}});
  const std::vector<Json> complete = of_phase(trace, "X"), begins = of_phase(trace, "s");
  REQUIRE(complete.size() == 4);
  CHECK(complete[2]["args"]["grid"] == "4x2x1");
  CHECK(complete[2]["args"]["block"] == "256x1x1");
  CHECK(complete[3]["args"]["bytes"] == 1024);
  CHECK(complete[3]["args"]["graph node"] == 12);
  REQUIRE(begins.size() == 1);
  CHECK(begins[0]["ts"] == Approx(1000));
  CHECK(of_phase(trace, "f")[0]["ts"] == Approx(3000));
}

TEST_CASE("chrome trace: of a training step, with its memory", "[chrome_trace]") {
  manual_seed(1);
  const auto model = make_mlp({3, 4, 2});
  MemoryRecording memory({});
  SpanRecording recording;
  {
    const SpanScope step(SpanKind::step, "step 1");
    sum((*model)(full({5, 3}, 0.25))).backward();
  }
  recording.stop();
  memory.stop();
  const Json trace = parse({chrome_events(
      {.name = "rank 0", .zero = memory.begin(), .spans = recording.spans(), .memory = &memory})});
  const std::vector<Json> complete = of_phase(trace, "X"), counters = of_phase(trace, "C");
  CHECK(complete.size() == recording.spans().size());
  CHECK(complete[0]["name"] == "step 1");
  const auto linear = std::find_if(complete.begin(), complete.end(),
                                   [](const Json& event) { return event["name"] == "linear_relu"; });
  REQUIRE(linear != complete.end());
  CHECK((*linear)["args"]["shapes"] == "5x3, 4x3, 4");
  CHECK((*linear)["args"]["FLOPs"] == 2 * 5 * 3 * 4);
  CHECK((*linear)["args"]["bytes"] == 4 * (15 + 12 + 4 + 20));
  // A level for the start and for each event. The last level of activations is the first: all are freed.
  REQUIRE(counters.size() == 1 + memory.events().size());
  CHECK(counters.front()["args"]["activations"] == memory.start()[MemoryCategory::activations]);
  CHECK(counters.back()["args"]["activations"] == counters.front()["args"]["activations"]);
  std::size_t most = 0;
  for (const Json& event : counters) most = std::max<std::size_t>(most, event["args"]["activations"]);
  CHECK(most >= memory.start()[MemoryCategory::activations] + 2 * 256);  // in and out of ReLU
}
