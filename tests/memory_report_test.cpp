#include "core/memory_report.h"

#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "core/tensor.h"
#include "nn/memory_estimate.h"
#include "tests/catch.h"

namespace ringtape::test {
namespace {

using enum MemoryCategory;

Tensor take(MemoryCategory category, std::int64_t kib) {
  const MemoryScope scope(category);
  return empty({kib * 256});
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Half a MiB of gradients that stay, a MiB of activations that come and go beside 256 KiB of workspace.
void record(MemoryRecording& recording) {
  const Tensor kept = take(gradients, 512);
  {
    const Tensor passing = take(activations, 1024);
    take(workspace, 256);
  }
  recording.stop();
}

}  // namespace

TEST_CASE("the memory table has a line for each category in use, other last, and the formula's", "[memory]") {
  MemoryStats stats;
  stats.live_by_category[parameters] = 1 << 20;
  stats.live_by_category[other] = 512 << 10;
  stats.live = 3 << 19;
  stats.peak_by_category = stats.live_by_category;
  stats.peak_by_category[activations] = 5 << 19;
  stats.peak = 4 << 20;
  CHECK(memory_table(stats) ==
        "memory, MiB                     now  at the peak\n"
        "parameters                     1.00         1.00\n"
        "activations                    0.00         2.50\n"
        "other                          0.50         0.50\n"
        "total                          1.50         4.00\n");
  BytesByCategory formula;
  formula[parameters] = 1 << 20;
  formula[data] = 1 << 18;
  const std::string text = memory_table(stats, &formula);
  CHECK_THAT(text, ContainsSubstring("parameters                     1.00         1.00         1.00\n"));
  CHECK_THAT(text, ContainsSubstring("data                           0.00         0.00         0.25\n"));
  CHECK_THAT(text, ContainsSubstring("total                          1.50         4.00         1.25\n"));
}

TEST_CASE("the memory timeline draws each moment as a bar and marks the peak", "[memory]") {
  MemoryRecording recording({});
  record(recording);
  const std::size_t start = recording.start().total();
  const std::string text = memory_timeline(recording, 1000);
  CHECK(count(text, "\n") == 1 + 1000 + 1);
  CHECK(count(text, "< peak") == 1);
  CHECK_THAT(text, ContainsSubstring("G gradients") && ContainsSubstring("A activations") &&
                       ContainsSubstring("W workspace"));
  // With one step there is one bar: the peak, 64 letters for all bytes.
  const std::string one = memory_timeline(recording, 1);
  const std::size_t peak = start + (512 + 1024 + 256) * 1024;
  CHECK_THAT(one, ContainsSubstring(fmt::format("{:.2f}  ", static_cast<double>(peak) / (1 << 20))));
  std::smatch bar;
  REQUIRE(std::regex_search(one, bar, std::regex("  ([.PGOADWd]{64}) < peak\n")));
  const auto letters = static_cast<double>(count(bar[1].str(), "A"));
  CHECK(std::abs(letters - 64.0 * 1024 * 1024 / static_cast<double>(peak)) <= 1);
}

TEST_CASE("a recording without events is a flat line", "[memory]") {
  MemoryRecording recording({});
  recording.stop();
  CHECK(count(memory_timeline(recording, 5), "\n") == 1 + 5 + 1);
  CHECK(memory_csv(recording) == "seconds,category,bytes,live\n");
  CHECK_THAT(memory_svg(recording), ContainsSubstring("</svg>"));
}

TEST_CASE("the memory report as CSV and as a picture", "[memory]") {
  MemoryRecording recording({});
  record(recording);
  const std::size_t start = recording.start().total();
  const std::string csv = memory_csv(recording);
  CHECK(count(csv, "\n") == 1 + 5);
  CHECK_THAT(csv, ContainsSubstring(fmt::format(",gradients,524288,{}\n", start + 524288)));
  CHECK_THAT(csv, ContainsSubstring(fmt::format(",workspace,-262144,{}\n", start + (512 + 1024) * 1024)));

  const std::string svg = memory_svg(recording);
  CHECK_THAT(svg, ContainsSubstring("<svg xmlns") && ContainsSubstring(">activations</text>") &&
                      ContainsSubstring("</svg>"));
  CHECK(count(svg, "<path") == count(svg, "Z\" fill="));
  CHECK(count(svg, "nan") == 0);
}

TEST_CASE("the memory report of a run has the table and the timeline", "[memory]") {
  MemoryRecording recording({});
  record(recording);
  const BytesByCategory formula = estimate_memory({.sizes = {784, 256, 10}, .micro_batch = 64});
  const std::string text = memory_report(Device{}, recording, formula);
  CHECK_THAT(text, ContainsSubstring("by formula\n") && ContainsSubstring("optimizer state") &&
                       ContainsSubstring("< peak"));
}

}  // namespace ringtape::test
