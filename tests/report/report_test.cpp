#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "plot/canvas.h"
#include "tests/support/catch.h"
#include "tests/support/profile_spans.h"
#include "tests/support/text.h"
#include "tests/support/xml.h"
#include "train/report/document.h"
#include "train/report/page.h"

namespace ringtape::test {
namespace {

using namespace report;
using Catch::Matchers::StartsWith;

StepRecord step(std::int64_t number, double loss) {
  return {.step = number,
          .epoch = 1,
          .rate = 0.001,
          .samples = 64,
          .targets = 64,
          .loss = loss,
          .grad_norm = 2,
          .correct = 16};
}

RunReport whole() {
  RunReport report;
  report.title = "MNIST";
  report.subtitle = "model 784-256-10";
  report.results = {{"test accuracy", "97.00%"}};
  report.texts = {{5, "3 tokens", "a <b> c"}, {10, "3 tokens", "d"}};
  report.settings = {{"--epochs", "3"}};
  report.machine = {{"cpu", "AMD EPYC"}};
  for (int i = 1; i <= 10; ++i) report.curves.steps.push_back(step(i, 1.0 / i));
  report.curves.evaluations = {{10, 0.1, 0.97}};
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

/// The rows of a table as text, with "|" between cells.
std::vector<std::string> rows_of(const Json& table) {
  std::vector<std::string> rows;
  for (const Json& row : table.at("rows").as_array()) {
    std::string& text = rows.emplace_back();
    for (const Json& cell : row.at("cells").as_array()) text += (text.empty() ? "" : "|") + cell.as_string();
  }
  return rows;
}

void for_each_chart(const Json& value, const std::function<void(const std::string&)>& visit) {
  if (value.is_array()) {
    for (const Json& element : value.as_array()) for_each_chart(element, visit);
  } else if (value.is_object()) {
    for (const auto& [name, member] : value.as_object()) {
      name == "svg" ? visit(member.as_string()) : for_each_chart(member, visit);
    }
  }
}

/// The document that a page holds.
Json document_in(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"document\">";
  const std::size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::string roofline(const RunReport& report) {
  return roofline_of(report).at("svg").as_string();
}

/// The names of the parts that are empty.
std::set<std::string> empty_parts(const RunReport& report) {
  std::set<std::string> names;
  const Json document = document_of(report);
  for (const auto& [name, value] : document.as_object()) {
    const bool is_empty = value.is_null() || (value.is_string() && value.as_string().empty()) ||
                          (value.is_array() && value.as_array().empty());
    if (is_empty) names.insert(name);
  }
  return names;
}

/// The names of the parts that fill the template's elements, such as "profile.layers".
std::set<std::string> names_in_template() {
  std::set<std::string> names;
  const std::string text(page_template());
  const std::string attribute = "data-from=\"";
  for (std::size_t at = text.find(attribute); at != std::string::npos; at = text.find(attribute, at)) {
    at += attribute.size();
    names.insert(text.substr(at, text.find('"', at) - at));
  }
  return names;
}

/// The names in a document, two levels deep.
std::set<std::string> names_in(const Json& document) {
  std::set<std::string> names;
  for (const auto& [name, value] : document.as_object()) {
    names.insert(name);
    if (!value.is_object()) continue;
    for (const auto& [member, content] : value.as_object()) names.insert(name + "." + member);
  }
  return names;
}

}  // namespace

TEST_CASE("a page is the template with the document in it, and nothing to fetch", "[report]") {
  const Json document = document_of(whole());
  const std::string page = html_page(document);
  CHECK(document_in(page).dump() == document.dump());
  CHECK(count(page, "@DOCUMENT@") == 0);
  CHECK(count(page, "<script") == 2);
  CHECK(count(page, "</script>") == 2);
  CHECK(count(page, "src=") == 0);
  CHECK(count(page, "http") == count(page, "xmlns=\\\"http://www.w3.org/2000/svg\\\""));
  CHECK(page.ends_with("</html>\n"));
}

TEST_CASE("the template shows every part of a document, and no others", "[report]") {
  std::set<std::string> names = names_in(document_of(whole()));
  CHECK(names.erase("chart_style") == 1);  // the script puts it into the head
  CHECK(names_in_template() == names);
}

TEST_CASE("charts are well-formed and contain no NaN", "[report]") {
  int charts = 0;
  for_each_chart(document_of(whole()), [&charts](const std::string& svg) {
    ++charts;
    CHECK(xml_error(svg) == "");
    CHECK(count(svg, "nan") == 0);
  });
  CHECK(charts == 8);  // four curves, timeline, roofline, memory, tape
}

TEST_CASE("a full report has all parts, and an empty one has none", "[report]") {
  CHECK(empty_parts(whole()) == std::set<std::string>{"error", "missing"});
  CHECK(empty_parts({}) == std::set<std::string>{"title", "subtitle", "error", "missing", "results", "curves",
                                                 "texts", "profile", "timeline", "roofline", "memory", "tape",
                                                 "settings", "machine"});
}

TEST_CASE("whatever a user can name ends no script, and is escaped in charts", "[report]") {
  RunReport report = whole();
  const std::string bad = "</script><!--<script><img src=x onerror=\"alert('1')\">&";
  report.title = report.subtitle = report.error = report.missing = bad;
  report.texts = {{1, bad, bad}};
  report.results = report.settings = report.machine = {{bad, bad}};
  report.tape->vertices[0].name = bad;
  report.timeline->ranks[0][0].name = bad;
  for (ProfileRow& row : report.profile->rows) row.name = row.shapes = row.layer = bad;
  const std::string page = html_page(document_of(report));
  CHECK(count(page, "<script") == 2);
  CHECK(count(page, "</script>") == 2);
  CHECK(count(page, "<!--") == 1);  // the template's own
  CHECK(count(page, "<img") == 0);
  const Json document = document_in(page);
  CHECK(document.at("title").as_string() == bad);
  CHECK(document.at("machine").as_array()[0].at("value").as_string() == bad);
  int escaped = 0;
  for_each_chart(document, [&escaped](const std::string& svg) {
    CHECK(count(svg, "<img") == 0);
    escaped += count(svg, "&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;") > 0;
  });
  CHECK(escaped == 3);  // timeline, roofline, tape
}

TEST_CASE("one step, losses that are not finite and a resumed run can be drawn", "[report]") {
  RunReport report;
  SECTION("one step") {
    report.curves.steps = {step(1, 2)};
  }
  SECTION("not a number") {
    report.curves.steps = {step(1, 2), step(2, NAN), step(3, INFINITY), step(4, 1)};
  }
  SECTION("no number at all") {
    report.curves.steps = {step(1, NAN)};
  }
  SECTION("steps with a loss alone") {
    for (int i = 1; i <= 3; ++i) {
      report.curves.steps.push_back(
          {.step = i, .epoch = 0, .rate = NAN, .samples = 0, .loss = 1, .grad_norm = NAN, .correct = -1});
    }
  }
  const Json curves = curves_of(report);
  CHECK(curves.at("charts").as_array().size() >= 2);
  for_each_chart(curves, [](const std::string& svg) {
    CHECK(xml_error(svg) == "");
    CHECK(count(svg, "nan") == 0);
    CHECK(count(svg, "inf") == 0);
  });
}

TEST_CASE("a task without correct predictions has no curve of accuracy", "[report]") {
  RunReport report = whole();
  const auto captions = [&report] {
    std::string text;
    const Json curves = curves_of(report);
    for (const Json& chart : curves.at("charts").as_array()) text += chart.at("caption").as_string() + ", ";
    return text;
  };
  CHECK(captions() == "Loss, Accuracy, Learning rate, Gradient norm, ");
  for (StepRecord& record : report.curves.steps) record.correct = -1;
  CHECK(captions() == "Loss, Learning rate, Gradient norm, ");
  for (StepRecord& record : report.curves.steps) record.grad_norm = NAN;
  CHECK(captions() == "Loss, Learning rate, ");
}

TEST_CASE("the training accuracy is per target, of which a sample may have several", "[report]") {
  RunReport of_one = whole(), of_two = whole();
  for (StepRecord& record : of_two.curves.steps) record.samples = record.targets / 2;
  const Json expected = curves_of(of_one), found = curves_of(of_two);
  const Json &accuracy = expected.at("charts").as_array()[1], &own = found.at("charts").as_array()[1];
  CHECK(accuracy.at("caption").as_string() == "Accuracy");
  CHECK(own.at("svg").as_string() == accuracy.at("svg").as_string());
}

TEST_CASE("curves say so if a point is the mean of several steps", "[report]") {
  RunReport report;
  for (int i = 1; i <= 240; ++i) report.curves.steps.push_back(step(i, 1));
  CHECK(!curves_of(report).at("has_bands").as_bool());
  report.curves.steps.push_back(step(241, 1));
  CHECK(curves_of(report).at("has_bands").as_bool());
}

TEST_CASE("the report's table has the profile's rows, and closes with idle time and the step", "[report]") {
  const Json profile = profile_of(whole()), &table = profile.at("operations");
  const std::vector<std::string> rows = rows_of(table);
  const Json::Array& all = table.at("rows").as_array();
  // (step itself): 65 ms of two steps of 150 ms in all, the longest; linear: 20 ms and 10 ms
  CHECK_THAT(rows[0], StartsWith("(step itself)|32.500|43.3%|"));
  CHECK(all[0].at("bar").as_double() == 1);
  const auto linear =
      std::find_if(rows.begin(), rows.end(), [](const auto& r) { return r.starts_with("linear|"); });
  REQUIRE(linear != rows.end());
  CHECK_THAT(*linear, StartsWith("linear|15.000|20.0%|"));
  const Json& row_of_linear = all[static_cast<std::size_t>(linear - rows.begin())];
  CHECK(row_of_linear.at("detail").as_string() == "2x3, 4x3");
  CHECK(row_of_linear.at("bar").as_double() == Approx(30.0 / 65));
  REQUIRE(rows.size() > 2);
  CHECK_THAT(rows[rows.size() - 2], StartsWith("idle, or not marked|"));
  CHECK_THAT(rows.back(), StartsWith("step|75.000|100.0%|"));
  CHECK(all.back().at("kind").as_string() == "sum");
  for (const Json& row : all)
    CHECK(row.at("cells").as_array().size() == table.at("columns").as_array().size());
  CHECK(profile.at("first_step").as_int64() == 1);
  CHECK(profile.at("last_step").as_int64() == 2);
}

TEST_CASE("phases and idle time add up to the step", "[report]") {
  const Json profile = profile_of(whole());
  double shares = 0;
  std::string text;
  for (const Json& phase : profile.at("phases").as_array()) {
    shares += phase.at("share").as_double();
    text += fmt::format("{} {} {}, ", phase.at("name").as_string(), phase.at("time").as_string(),
                        phase.at("percent").as_string());
  }
  CHECK(shares == Approx(1).margin(0.002));  // those below 0.05% are left out
  // forward: 35 ms of two steps of 150 ms in all
  CHECK_THAT(text, ContainsSubstring("forward 17.500 ms 23.3%, "));
}

TEST_CASE("the roofline places an operation at its intensity and rate, under the roof", "[report]") {
  const RunReport report = whole();
  const std::string section = roofline(report);
  // linear: 80 MFLOP on 4 MB in 30 ms: 20 FLOPs per byte at 2.67 GFLOP/s; at 1 GB/s 20 are the limit, so 13%
  CHECK_THAT(section, ContainsSubstring("20 FLOPs per byte\n2.67 GFLOP/s, 0.133 GB/s, 13% of the limit"));
  CHECK_THAT(section, ContainsSubstring(">computes 100 GFLOP/s<") && ContainsSubstring(">copies 1 GB/s<"));
  RunReport none = report;
  for (ProfileRow& row : none.profile->rows) row.work = {};
  CHECK(roofline_of(none).is_null());
}

TEST_CASE("both parts of the roof are in the picture, wherever the operations are", "[report]") {
  RunReport report = whole();
  for (ProfileRow& row : report.profile->rows) row.work.bytes = row.work.flops / 1000;  // the ridge is at 100
  const std::string svg = roofline(report);
  const std::size_t path = svg.find("<path d=\"M");
  REQUIRE(path != std::string::npos);
  const std::size_t ridge = svg.find('L', path);
  CHECK(std::stod(svg.substr(path + 10)) < std::stod(svg.substr(ridge + 1)));
}

TEST_CASE("if a GPU's times are known, phases and the roofline use them", "[report]") {
  RunReport report = whole();
  Profile& profile = *report.profile;
  for (ProfileRow& row : profile.rows) {
    if (row.name == "linear") row.device = std::chrono::milliseconds(60);
  }
  for (ProfilePhase& phase : profile.phases) {
    if (phase.name == "forward") phase.device = std::chrono::milliseconds(60);
  }
  // 60 of 150 ms: 80 MFLOP at 1.33 GFLOP/s
  CHECK_THAT(roofline(report), ContainsSubstring("40.0% of the step, 20 FLOPs per byte\n1.33 GFLOP/s"));
  for (ProfileRow& row : profile.rows) {
    if (row.name == "linear") row.self = std::chrono::microseconds(10);  // queuing takes almost no time
  }
  CHECK_THAT(roofline(report), ContainsSubstring("40.0% of the step"));
  const Json shown = profile_of(report);
  const Json::Array& phases = shown.at("phases").as_array();
  REQUIRE(phases.size() == 2);
  CHECK((phases[0].at("name").as_string() == "forward" && phases[0].at("percent").as_string() == "40.0%"));
  CHECK(phases[1].at("name").as_string() == "idle, or not marked");
  CHECK(phases[1].at("percent").as_string() == "60.0%");
}

TEST_CASE("test accuracies are percentages", "[report]") {
  const Json curves = curves_of(whole());
  CHECK_THAT(curves.at("charts").as_array()[1].at("svg").as_string(),
             ContainsSubstring("<title>test 97</title>"));
}

TEST_CASE("the roofline has the phases' colours", "[report]") {
  RunReport report = whole();
  report.phases = {{"linear", "backward"}};
  CHECK(count(roofline(report), "class=\"dot s1\"") == 1);
  report.phases = {{"linear", "optimizer"}};
  CHECK(count(roofline(report), "class=\"dot s2\"") == 1);
}

TEST_CASE("labels of the roofline do not overlap", "[report]") {
  RunReport report = whole();
  const ProfileRow linear = row(*report.profile, "linear");
  report.profile->rows.assign(5, linear);  // all at one point: there is room to its right and to its left
  CHECK(count(roofline(report), ">linear</text>") <= 2);
  CHECK(count(roofline(report), ">linear</text>") >= 1);
}

TEST_CASE("an operation that takes less than 1% of the step is not in the roofline", "[report]") {
  RunReport report = whole();
  ProfileRow little = row(*report.profile, "linear");
  little.name = "add";
  little.self = report.profile->wall / 200;
  report.profile->rows.push_back(little);
  CHECK(count(roofline(report), "class=\"dot") == 1);
}

TEST_CASE("a failed run says so, and a run of several ranks is marked", "[report]") {
  RunReport report = whole();
  CHECK(!document_of(report).at("has_ranks").as_bool());
  report.error = "training diverged";
  report.world_size = 2;
  report.missing = "device times: not available";
  const Json document = document_of(report);
  CHECK(document.at("error").as_string() == "training diverged");
  CHECK(document.at("missing").as_string() == "device times: not available");
  CHECK(document.at("has_ranks").as_bool());
}

TEST_CASE("bytes that are not UTF-8 are replaced", "[report]") {
  CHECK(svg::escape("a\xFFz") == "a\xEF\xBF\xBDz");
  CHECK(svg::escape("\xC3") == "\xEF\xBF\xBD");
  CHECK(svg::escape("\xC0\xAF") == "\xEF\xBF\xBD\xEF\xBF\xBD");          // overlong
  CHECK(svg::escape("\xED\xA0\x80").find("\xED") == std::string::npos);  // a surrogate
  CHECK(svg::escape("\u00e4\u2013\U0001F600") == "\u00e4\u2013\U0001F600");
  RunReport report;
  report.title = "a\xFFz";
  CHECK(document_in(html_page(document_of(report))).at("title").as_string() == "a\xEF\xBF\xBDz");
}

TEST_CASE("texts are in the document with their steps, in order", "[report]") {
  const Json::Array texts = document_of(whole()).at("texts").as_array();
  REQUIRE(texts.size() == 2);
  CHECK(texts[0].at("step").as_int64() == 5);
  CHECK(texts[0].at("text").as_string() == "a <b> c");
  CHECK(texts[1].at("title").as_string() == "3 tokens");
}

TEST_CASE("the report's memory has categories, the peak and the data set", "[report]") {
  const Json memory = memory_of(whole());
  CHECK(memory.at("step").as_int64() == 1);
  const Json& table = memory.at("table");
  CHECK(rows_of(table) == std::vector<std::string>{"parameters|4 KiB|4 KiB|3.91 KiB", "activations|–|1 MiB|–",
                                                   "all|4 KiB|1 MiB|3.91 KiB",
                                                   "data set, not in the picture|1 MiB|1 MiB|–"});
  CHECK(table.at("rows").as_array()[2].at("kind").as_string() == "sum");
  CHECK_THAT(memory.at("svg").as_string(), ContainsSubstring("peak 1 MiB</text>"));
}

}  // namespace ringtape::test
