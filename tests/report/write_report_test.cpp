#include <chrono>

#include "autograd/creation.h"
#include "dist/self_communicator.h"
#include "io/file.h"
#include "io/json.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "train/write_report.h"

namespace ringtape::test {

TEST_CASE("a written report shows a step from its own beginning, without the data set", "[report]") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "r.json").string();
  const Tensor data = zeros({1 << 20});  // of 4 MiB
  const BytesByCategory data_set = memory_stats(Device{}).live_by_category;
  SelfCommunicator comm(Device{});
  ObservationOptions options;
  options.report = file;
  options.profile_steps = StepRange{1, 3};
  RecordedSteps recorded(options, comm, 0, 3);
  constexpr std::chrono::milliseconds kStep(5);
  // Spans that begin before their recording does are left out.
  SpanClock::time_point begin = SpanClock::now() + std::chrono::hours(1);
  for (int i = 1; i <= 3; ++i, begin += kStep) {
    recorded.begin_step(i);
    Span span{.name = "forward", .begin = begin, .end = begin + kStep, .arguments = {}};
    span.kind = SpanKind::phase;
    span.depth = 1;
    add_span(span);
    span.name = fmt::format("step {}", i);
    span.kind = SpanKind::step;
    span.depth = 0;
    add_span(span);
    recorded.end_step();
  }
  report::write_report({.report = {}, .recorded = recorded, .memory_formula = {}, .data_set = data_set}, file,
                       comm, Console(false));
  const Json document = Json::parse(read_text(file));
  CHECK(document.at("timeline").at("step").as_int64() == 2);
  // Step 2 begins after the clock's 0, but at the left of its picture.
  CHECK_THAT(document.at("timeline").at("svg").as_string(),
             ContainsSubstring("<rect x=\"112") && ContainsSubstring(">forward</text>"));
  const Json::Array& memory = document.at("memory").at("table").at("rows").as_array();
  const auto cell = [&memory](std::size_t row, std::size_t column) {
    return memory.at(row).at("cells").as_array().at(column).as_string();
  };
  CHECK((cell(0, 0) == "all" && cell(0, 1) == "–"));
  CHECK((cell(1, 0) == "data set, not in the picture" && cell(1, 1) == "4 MiB"));
}

TEST_CASE("a report is a page, or its document if the file name ends with .json", "[report]") {
  const TemporaryFolder folder;
  const std::string page = (folder.path() / "r.html").string(), json = (folder.path() / "r.json").string();
  report::RunReport report;
  report.title = "MNIST";
  report::save_report(report, page, Device{}, Console(false));
  report::save_report(report, json, Device{}, Console(false));
  CHECK_THAT(read_text(page),
             Catch::Matchers::StartsWith("<!DOCTYPE html>") && ContainsSubstring("\"title\": \"MNIST\""));
  CHECK(Json::parse(read_text(json)).at("title").as_string() == "MNIST");
}

}  // namespace ringtape::test
