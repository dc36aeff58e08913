#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/profile_spans.h"
#include "tests/support/xml.h"
#include "train/report/run_report.h"

namespace ringtape::test {
namespace {

using namespace report;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

StepRecord step(std::int64_t number, double loss) {
  return {
      .step = number, .epoch = 1, .rate = 0.001, .samples = 64, .loss = loss, .grad_norm = 2, .correct = 16};
}

RunReport whole() {
  RunReport report;
  report.title = "MNIST";
  report.subtitle = "model 784-256-10";
  report.results = {{"test accuracy", "97.00%"}};
  report.settings = {{"--epochs", "3"}};
  report.machine = {{"cpu", "AMD EPYC"}};
  for (int i = 1; i <= 10; ++i) report.curves.steps.push_back(step(i, 1.0 / i));
  report.curves.evaluations = {{10, {0.1, 0.97}}};
  report.profile = make_profile({.spans = two_steps(),
                                 .wall = std::chrono::milliseconds(150),
                                 .limits = {.bytes_per_second = 1e9, .flops_per_second = 1e11}});
  report.first_profiled = 1;
  report.last_profiled = 2;
  report.timeline = {.step = 1, .seconds = 0.1, .ranks = {{{Lane::phases, 0, 0.05, 0, "forward"}}}};
  StepMemory memory{.step = 1, .seconds = 0.1, .levels = {{}, {}}, .formula = {}, .data_set = 1 << 20};
  memory.levels[0].live[MemoryCategory::parameters] = 4096;
  memory.levels[1] = {0.05, memory.levels[0].live};
  memory.levels[1].live[MemoryCategory::activations] = 1 << 20;
  memory.formula[MemoryCategory::parameters] = 4000;
  report.memory = memory;
  TapeGraph tape;
  tape.vertices = {{.kind = VertexKind::leaf, .name = "w", .shape = Shape{2}},
                   {.kind = VertexKind::operation, .name = "sum", .shape = Shape{}}};
  tape.edges = {{0, 1, true}};
  report.tape = tape;
  return report;
}

}  // namespace

TEST_CASE("a report is one well-formed page with all sections and nothing to fetch", "[report]") {
  const std::string page = html_report(whole());
  CHECK(xml_error(page) == "");
  for (const char* heading : {"Curves", "Where the time goes", "A step, moment by moment", "Roofline",
                              "Memory", "Tape", "Settings", "Machine"}) {
    CHECK(count(page, fmt::format("<h2>{}</h2>", heading)) == 1);
  }
  CHECK(count(page, "<script") == 0);
  CHECK(count(page, "src=") == 0);
  CHECK(count(page, "http") == count(page, "xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(count(page, "nan") == 0);
}

TEST_CASE("a report without anything to show is still a page", "[report]") {
  const std::string page = html_report({});
  CHECK(xml_error(page) == "");
  CHECK(count(page, "<section>") == 1);
  CHECK_THAT(page, ContainsSubstring("No flag was given"));
}

TEST_CASE("whatever a user can name is escaped in the report", "[report]") {
  RunReport report = whole();
  const std::string bad = "<img src=x onerror=\"alert('1')\">&";
  report.title = report.subtitle = bad;
  report.results = report.settings = report.machine = {{bad, bad}};
  report.tape->vertices[0].name = bad;
  report.timeline->ranks[0][0].name = bad;
  report.profile->rows[0].name = report.profile->rows[0].shapes = report.profile->rows[0].layer = bad;
  const std::string page = html_report(report);
  CHECK(xml_error(page) == "");
  CHECK(count(page, "<img") == 0);
  CHECK(count(page, "&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;") >= 10);
}

TEST_CASE("one step, losses that are not numbers and a resumed run can be drawn", "[report]") {
  RunReport report;
  SECTION("one step") {
    report.curves.steps = {step(1, 2)};
  }
  SECTION("not a number") {
    report.curves.steps = {step(1, 2), step(2, NAN), step(3, INFINITY), step(4, 1)};
  }
  SECTION("nothing but what is not a number") {
    report.curves.steps = {step(1, NAN)};
  }
  SECTION("steps of which the loss alone is known") {
    for (int i = 1; i <= 3; ++i) {
      report.curves.steps.push_back(
          {.step = i, .epoch = 0, .rate = NAN, .samples = 0, .loss = 1, .grad_norm = NAN, .correct = -1});
    }
  }
  const std::string page = html_report(report);
  CHECK(xml_error(page) == "");
  CHECK(count(page, "<h2>Curves</h2>") == 1);
  CHECK(count(page, "nan") == 0);
  CHECK(count(page, "inf") == 0);
}

TEST_CASE("a task without correct predictions has no curve of accuracy", "[report]") {
  RunReport report = whole();
  CHECK(count(curves_section(report), "<figure>") == 4);
  for (StepRecord& record : report.curves.steps) record.correct = -1;
  CHECK(count(curves_section(report), "<figure>") == 3);
  for (StepRecord& record : report.curves.steps) record.grad_norm = NAN;
  CHECK(count(curves_section(report), "<figure>") == 2);
}

TEST_CASE("the report's table has the profile's rows, and closes with idle time and the step", "[report]") {
  const RunReport report = whole();
  const std::string section = profile_section(report);
  // linear: 20 ms and 10 ms in two steps of 150 ms in all
  CHECK_THAT(section, ContainsSubstring("linear <small>2x3, 4x3</small></th><td class=\"num\">15.000</td>"
                                        "<td class=\"num\">20.0%</td>"));
  CHECK_THAT(section,
             ContainsSubstring("step</th><td class=\"num\">75.000</td><td class=\"num\">100.0%</td>"));
}

TEST_CASE("the roofline puts an operation at its intensity and rate, under the roof", "[report]") {
  const RunReport report = whole();
  const std::string section = roofline_section(report);
  // linear: 80 MFLOP on 4 MB in 30 ms: 20 FLOPs a byte at 2.67 GFLOP/s; at 1 GB/s 20 are the limit, so 13%
  CHECK_THAT(section, ContainsSubstring("20 FLOPs a byte\n2.67 GFLOP/s, 0.133 GB/s, 13% of the limit"));
  CHECK_THAT(section, ContainsSubstring(">computes 100 GFLOP/s<") && ContainsSubstring(">copies 1 GB/s<"));
  RunReport none = report;
  for (ProfileRow& row : none.profile->rows) row.work = {};
  CHECK(roofline_section(none).empty());
}

TEST_CASE("accuracies of tests are percentages", "[report]") {
  CHECK_THAT(curves_section(whole()), ContainsSubstring("<title>test 97</title>"));
}

TEST_CASE("the roofline has the phases' colours", "[report]") {
  RunReport report = whole();
  report.phases = {{"linear", "backward"}};
  CHECK(count(roofline_section(report), "class=\"dot s1\"") == 1);
  report.phases = {{"linear", "optimizer"}};
  CHECK(count(roofline_section(report), "class=\"dot s2\"") == 1);
}

TEST_CASE("labels of the roofline do not lie upon each other", "[report]") {
  RunReport report = whole();
  const ProfileRow linear = row(*report.profile, "linear");
  report.profile->rows.assign(5, linear);  // all at one point: there is room to its right and to its left
  CHECK(count(roofline_section(report), ">linear</text>") <= 2);
  CHECK(count(roofline_section(report), ">linear</text>") >= 1);
}

TEST_CASE("what takes less than 1% of the step is not in the roofline", "[report]") {
  RunReport report = whole();
  ProfileRow little = row(*report.profile, "linear");
  little.name = "add";
  little.self = report.profile->wall / 200;
  report.profile->rows.push_back(little);
  CHECK(count(roofline_section(report), "class=\"dot") == 1);
}

TEST_CASE("a run that failed says so, and several ranks whose figures these are", "[report]") {
  RunReport report = whole();
  CHECK(count(html_report(report), "rank 0") == 0);
  report.error = "training diverged";
  report.world_size = 2;
  report.missing = "device times: not available";
  const std::string page = html_report(report);
  CHECK_THAT(page, ContainsSubstring("ended with an error: training diverged."));
  CHECK_THAT(profile_section(report),
             ContainsSubstring("of rank 0, and so are the limits. device times: not available"));
  CHECK_THAT(memory_section(report), ContainsSubstring("in step 1 on rank 0"));
}

TEST_CASE("bytes that are not UTF-8 are replaced", "[report]") {
  CHECK(svg::escape("a\xFFz") == "a\xEF\xBF\xBDz");
  CHECK(svg::escape("\xC3") == "\xEF\xBF\xBD");
  CHECK(svg::escape("\xC0\xAF") == "\xEF\xBF\xBD\xEF\xBF\xBD");          // overlong
  CHECK(svg::escape("\xED\xA0\x80").find("\xED") == std::string::npos);  // a surrogate
  CHECK(svg::escape("\u00e4\u2013\U0001F600") == "\u00e4\u2013\U0001F600");
}

TEST_CASE("the report's memory has categories, the peak and the data set", "[report]") {
  const std::string section = memory_section(whole());
  CHECK_THAT(section, ContainsSubstring("<th scope=\"row\">parameters</th><td class=\"num\">4 KiB</td>"
                                        "<td class=\"num\">4 KiB</td><td class=\"num\">3.91 KiB</td>"));
  CHECK_THAT(section, ContainsSubstring("<th scope=\"row\">activations</th><td class=\"num\">–</td>"
                                        "<td class=\"num\">1 MiB</td>"));
  CHECK_THAT(section, ContainsSubstring("peak 1 MiB</text>") && ContainsSubstring("data set"));
}

}  // namespace ringtape::test
