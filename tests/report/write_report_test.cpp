#include <chrono>

#include "autograd/creation.h"
#include "io/file.h"
#include "dist/self_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "train/report/write_report.h"

namespace ringtape::test {

TEST_CASE("a written report shows a step from its own beginning, without the data set", "[report]") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "r.html").string();
  const Tensor data = zeros({1 << 20});  // of 4 MiB
  const BytesByCategory data_set = memory_stats(Device{}).live_by_category;
  SelfCommunicator comm(Device{});
  ObservationOptions options;
  options.report = file;
  options.profile_steps = StepRange{1, 3};
  RecordedSteps recorded(options, comm, 0, 3);
  constexpr std::chrono::milliseconds kStep(5);
  SpanClock::time_point begin = SpanClock::now() + kStep;
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
                       comm);
  const std::string page = read_text(file);
  CHECK_THAT(page, ContainsSubstring("Step 2, by the host"));
  // Step 2 begins after the clock's 0, but at the left of its picture.
  CHECK_THAT(page, ContainsSubstring("<rect x=\"112") && ContainsSubstring(">forward</text>"));
  CHECK_THAT(page, ContainsSubstring("data set, not in the picture</th><td class=\"num\">4"));
  CHECK_THAT(page, ContainsSubstring("<th scope=\"row\">all</th><td class=\"num\">–</td>"));
}

}  // namespace ringtape::test
