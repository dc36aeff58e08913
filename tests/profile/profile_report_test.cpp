#include <algorithm>
#include <tuple>
#include <utility>

#include "profile/profile.h"
#include "tests/support/catch.h"
#include "tests/support/profile_spans.h"
#include "tests/support/text.h"

using namespace ringtape;
using namespace ringtape::test;
using std::chrono::milliseconds;

TEST_CASE("profile: sorted by a column", "[profile]") {
  Profile profile = make_profile({.spans = two_steps(), .wall = milliseconds(155)});
  sort_rows(profile, ProfileColumn::flops);
  CHECK(profile.rows[0].name == "linear");
  sort_rows(profile, ProfileColumn::total);
  CHECK(profile.rows[0].name == "(step itself)");
  CHECK(profile.rows[1].name == "(backward itself)");
  sort_rows(profile, ProfileColumn::operation);
  CHECK(profile.rows.back().name == "wait");
}

namespace {

bool says(const Profile& profile, const std::string& text) {
  const std::vector<std::string> lines = profile_verdict(profile);
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

/// A step of 100 ms with one phase.
Profile with_phase(const char* name, int time) {
  using enum SpanKind;
  const std::vector<Span> spans = {span(phase, name, 1, 0, time), span(step, "step 1", 0, 0, 100)};
  return make_profile({.spans = spans, .wall = milliseconds(100)});
}

}  // namespace

TEST_CASE("profile: the table", "[profile]") {
  Profile profile = make_profile({.spans = two_steps(), .wall = milliseconds(155)});
  profile.limits = {.bytes_per_second = 1e9, .flops_per_second = 4e9, .memory = 0};
  const std::vector<std::string> lines = lines_of(profile_table(profile));
  REQUIRE(lines.size() == 1 + 7 + 2);
  const auto linear = std::find_if(lines.begin(), lines.end(),
                                   [](const std::string& line) { return line.starts_with("linear  "); });
  REQUIRE(linear != lines.end());
  // 15 of 77.5 ms; 2 MB and 40 MFLOP, for which 4 GFLOP/s need 10 ms.
  for (const char* text :
       {"  1 ", " 15.000 ", " 19.4% ", " 40.0 ", " 2.00 ", " 2.67 ", " 0.133 ", " 67% F ", "2x3 4x3"}) {
    CHECK_THAT(*linear, ContainsSubstring(text));
  }
  CHECK_THAT(lines[8], ContainsSubstring("idle, or not marked") && ContainsSubstring(" 2.500   3.2%"));
  CHECK_THAT(lines[9], ContainsSubstring("step ") && ContainsSubstring(" 77.500   100%"));
}

TEST_CASE("profile: columns are sorted by the names that the table has", "[profile]") {
  const std::vector<Span> spans = two_steps();
  const std::vector<SpanClock::duration> device(spans.size(), milliseconds(1));
  const std::string header = lines_of(
      profile_table(make_profile({.spans = spans, .wall = milliseconds(155), .device_times = device})))[0];
  for (const auto& [name, column] : profile_columns()) CHECK_THAT(header, ContainsSubstring(name));
}

TEST_CASE("profile: the rows and idle time add up to the step", "[profile]") {
  const Profile profile = make_profile({.spans = two_steps(), .wall = milliseconds(155)});
  SpanClock::duration sum = profile.idle();
  for (const ProfileRow& each : profile.rows) sum += each.self;
  CHECK(sum == milliseconds(155));
}

TEST_CASE("profile: no name, path or shape makes a line of the table longer", "[profile]") {
  std::vector<Span> spans = two_steps();
  for (Span& each : spans) {
    each.layer = "encoder.blocks.11.attention.output.projection";
    if (each.kind == SpanKind::operation) each.shapes = "1048576x1024, 4096x1024x16x8, 16384x16384, 1048576";
  }
  const bool has_device = GENERATE(false, true);
  const std::vector<SpanClock::duration> device(has_device ? spans.size() : 0, milliseconds(4));
  const std::string table =
      profile_table(make_profile({.spans = spans, .wall = milliseconds(155), .device_times = device}));
  for (const std::string& line : lines_of(table)) CHECK(width_of(line) <= (has_device ? 128 : 120));
  CHECK_THAT(table, ContainsSubstring("1048576x1024 \u2026"));
  CHECK_THAT(table, ContainsSubstring("\u2026.projection"));
  CHECK((table.find(" device ") != std::string::npos) == has_device);
}

TEST_CASE("profile: rows sorted by how near they come to the limit", "[profile]") {
  const MachineLimits limits{.bytes_per_second = 1e9, .flops_per_second = 1e10, .memory = 0};
  ProfileRow product, copy, nothing;
  product.self = copy.self = nothing.self = milliseconds(100);
  product.work = {.flops = 500'000'000, .bytes = 10'000'000};  // 50 ms for FLOPs, 10 ms for bytes
  copy.work = {.flops = 0, .bytes = 80'000'000};               // 80 ms for bytes
  CHECK(product.share_of_limit(limits) == Approx(0.5));
  CHECK(copy.share_of_limit(limits) == Approx(0.8));
  CHECK(nothing.share_of_limit(limits) == 0);
  CHECK(copy.share_of_limit({}) == 0);
  copy.device = milliseconds(160);  // used if it is known
  CHECK(copy.share_of_limit(limits) == Approx(0.5));
  CHECK(copy.gbytes_per_second() == Approx(0.5));
  Profile profile;
  profile.limits = limits;
  copy.device = {};
  std::tie(product.name, copy.name) = std::pair("product", "copy");
  profile.rows = {nothing, product, copy};
  sort_rows(profile, ProfileColumn::limit);
  CHECK(profile.rows[0].name == "copy");
  CHECK(profile.rows[1].name == "product");
}

TEST_CASE("profile: the verdict on phases", "[profile]") {
  CHECK(says(with_phase("optimizer", 18), "optimizer 18.0% of a step."));
  CHECK(says(with_phase("optimizer", 18), "accumulating more micro-batches"));
  CHECK_FALSE(says(with_phase("optimizer", 15), "accumulating"));
  CHECK(says(with_phase("data", 11), "Samples are waited for"));
  CHECK_FALSE(says(with_phase("data", 10), "Samples are waited for"));
  CHECK(says(with_phase("waiting", 11), "Communication holds the step up"));
  CHECK_FALSE(says(with_phase("waiting", 10), "Communication holds"));
  CHECK(says(with_phase("forward", 89), "More than a tenth of a step lies in no phase"));
  CHECK_FALSE(says(with_phase("forward", 90), "in no phase"));
}

TEST_CASE("profile: the verdict on busy time, memory and limits", "[profile]") {
  Profile profile = with_phase("forward", 95);
  CHECK(says(profile, "Busy: 100% of the time."));
  CHECK_FALSE(says(profile, "Memory"));
  CHECK_FALSE(says(profile, "Limits"));
  profile.device_busy = milliseconds(70);
  CHECK(says(profile, "the GPU works for 70.0% of the time. It waits for the host"));
  profile.device_busy = milliseconds(80);
  CHECK_FALSE(says(profile, "waits for the host"));
  profile.memory_peak = 400 << 20;
  profile.limits.memory = 1000 << 20;
  CHECK(says(profile, "Memory: 400 MiB at most, 40.0% of 1000 MiB. There is room for larger micro-batches."));
  profile.shares_memory = true;  // the other ranks' memory is not known
  CHECK(says(profile, "40.0% of 1000 MiB."));
  CHECK_FALSE(says(profile, "icro-batches"));
  profile.shares_memory = false;
  profile.memory_peak = 700 << 20;
  CHECK_FALSE(says(profile, "icro-batches"));
  profile.memory_peak = 950 << 20;
  CHECK(says(profile, "Smaller micro-batches"));
  profile.limits.flops_per_second = 1e9;
  profile.rows[0].name = "slow";
  profile.rows[0].work.flops = 20'000'000;  // 20 ms
  CHECK(says(profile, "needs 20.000 ms at the least, 20.0%"));
  CHECK(says(profile, "Most is lost in slow"));
}

TEST_CASE("profile: waiting for ranks and for samples is not busy", "[profile]") {
  using enum SpanKind;
  const std::vector<Span> spans = {span(operation, "load batch", 2, 0, 10), span(phase, "data", 1, 0, 20),
                                   span(operation, "wait", 2, 50, 80, Track::waiting),
                                   span(phase, "backward", 1, 20, 90), span(step, "step 1", 0, 0, 100)};
  const Profile profile = make_profile({.spans = spans, .wall = milliseconds(125)});
  CHECK(says(profile,
             "Busy: 48.0% of the time; 24.0% waiting for other ranks, 8.0% waiting for samples, 20.0% not "
             "marked."));
}

TEST_CASE("profile: most may be lost in an operation without a formula", "[profile]") {
  using enum SpanKind;
  Span linear = span(operation, "linear", 1, 0, 30);
  linear.work = {.flops = 10'000'000, .bytes = 0};
  const Track track = GENERATE(Track::compute, Track::waiting);
  const std::vector<Span> spans = {linear, span(operation, "wait", 1, 40, 90, track),
                                   span(step, "step 1", 0, 0, 100)};
  Profile profile = make_profile({.spans = spans, .wall = milliseconds(100)});
  profile.limits.flops_per_second = 1e9;
  CHECK(says(profile,
             "needs 10.000 ms at the least, 10.0% of what it takes. Most is lost in wait: 50.000 ms, "
             "50.0% of a step."));
  profile.wall = milliseconds(200);
  CHECK(says(profile, "Most is lost in what is idle or not marked: 100.000 ms, 50.0% of a step."));
}

namespace {

/// A step of 100 ms: 20 for FLOPs and 30 for bytes at the least.
Profile with_both_limits() {
  using enum SpanKind;
  Span product = span(operation, "product", 1, 0, 40), copy = span(operation, "copy", 1, 40, 100);
  product.work = {.flops = 20'000'000, .bytes = 1'000'000};
  copy.work = {.flops = 1'000'000, .bytes = 30'000'000};
  const std::vector<Span> spans = {product, copy, span(step, "step 1", 0, 0, 100)};
  Profile profile = make_profile({.spans = spans, .wall = milliseconds(100)});
  profile.limits = {.bytes_per_second = 1e9, .flops_per_second = 1e9, .memory = 0};
  return profile;
}

}  // namespace

TEST_CASE("profile: the step's share of the limit is the same in the table and the verdict", "[profile]") {
  const Profile profile = with_both_limits();
  CHECK(says(profile, "needs 50.000 ms at the least, 50.0% of what it takes."));
  CHECK_THAT(lines_of(profile_table(profile)).back(),
             ContainsSubstring("step ") && ContainsSubstring(" 50% B "));
}

TEST_CASE("profile: why a row is above its limit", "[profile]") {
  Profile profile = with_both_limits();
  CHECK_FALSE(says(profile, "caches"));
  profile.limits.bytes_per_second = 1e8;  // 300 ms for the copy
  CHECK(says(profile, "its data stay in caches"));
  profile.limits.flops_per_second = 4e8;  // 50 ms for the product
  CHECK_FALSE(says(profile, "caches"));
  CHECK(says(profile, "on a busy machine"));
  profile.limits.bytes_per_second = 1e9;
  CHECK(says(profile, "on a busy machine"));
}

TEST_CASE("profile: on a GPU the phases' shares are of the GPU's time", "[profile]") {
  using enum SpanKind;
  const std::vector<Span> spans = {span(phase, "forward", 1, 0, 10), span(phase, "optimizer", 1, 10, 30),
                                   span(step, "step 1", 0, 0, 40)};
  const std::vector<SpanClock::duration> device = {milliseconds(85), milliseconds(5), milliseconds(0)};
  const Profile profile = make_profile(
      {.spans = spans, .wall = milliseconds(100), .device_times = device, .device_busy = milliseconds(90)});
  CHECK(says(profile, "forward 85.0%, backward 0.0%, optimizer 5.0% of a step."));
  CHECK_FALSE(says(profile, "accumulating"));
}

TEST_CASE("profile: if a GPU's times are unknown, the verdict says nothing about its work", "[profile]") {
  ProfileInput input{.spans = {}, .wall = milliseconds(155), .is_of_gpu = true};
  const std::vector<Span> spans = two_steps();
  input.spans = spans;
  input.limits = {.bytes_per_second = 1e9, .flops_per_second = 4e9, .memory = 1000 << 20};
  Profile profile = make_profile(input);
  profile.memory_peak = 700 << 20;
  CHECK(profile_verdict(profile) ==
        std::vector<std::string>{
            "How busy the GPU was is not known: times are of the host, which queues its work.",
            "Memory: 700 MiB at most, 70.0% of 1000 MiB."});
  const ProfileRow& linear = row(profile, "linear");
  CHECK(linear.self == milliseconds(30));
  CHECK(linear.work.flops == 80'000'000);
  CHECK(linear.gflops_per_second() == 0);
  CHECK(linear.gbytes_per_second() == 0);
  CHECK(linear.share_of_limit(profile.limits) == 0);
  const std::vector<SpanClock::duration> device(spans.size(), milliseconds(1));
  input.device_times = device;
  input.device_busy = milliseconds(12);
  CHECK(says(make_profile(input), "the GPU works for 7.7% of the time"));
}

TEST_CASE("profile: the verdict on the ratio of backward's to forward's time", "[profile]") {
  using enum SpanKind;
  const auto with_backward = [](int time) {
    const std::vector<Span> spans = {span(phase, "forward", 1, 0, 10),
                                     span(phase, "backward", 1, 10, 10 + time),
                                     span(step, "step 1", 0, 0, 10 + time)};
    return make_profile({.spans = spans, .wall = milliseconds(10 + time)});
  };
  CHECK(says(with_backward(18), "Backward takes 1.8 times forward, about what its products need"));
  CHECK(says(with_backward(9), "Backward takes 0.9 times forward, though it has more products"));
  CHECK(says(with_backward(30), "Backward takes 3.0 times forward, more than its products need"));
}

TEST_CASE("profile: a negative number that rounds to 0 is written without a sign", "[profile]") {
  Profile profile = with_both_limits();
  profile.rows[0].memory = -200;
  CHECK(lines_of(profile_table(profile))[1].ends_with(" 0.000"));
}

TEST_CASE("profile: the report has all tables", "[profile]") {
  const std::string report = profile_report(make_profile({.spans = two_steps(), .wall = milliseconds(155)}));
  for (const char* text : {"operation ", "layer ", "(in no layer)", "phase ", "Busy"}) {
    CHECK_THAT(report, ContainsSubstring(text));
  }
  CHECK_THAT(report, !ContainsSubstring("limit:"));  // none was measured
  CHECK(profile_report({}) == "no step was recorded\n");
}
