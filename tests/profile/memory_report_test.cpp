#include "profile/memory_report.h"

#include <fmt/format.h>

#include <cmath>

#include "core/tensor.h"
#include "tests/support/catch.h"
#include "tests/support/text.h"

namespace ringtape::test {
namespace {

using enum MemoryCategory;

Tensor take(MemoryCategory category, std::int64_t kib) {
  const MemoryScope scope(category);
  return empty({kib * 256});
}

/// Records half a MiB of gradients that are kept, and a MiB of activations with 256 KiB of workspace, which
/// are freed.
void record(MemoryRecording& recording) {
  const Tensor kept = take(gradients, 512);
  {
    const Tensor passing = take(activations, 1024);
    take(workspace, 256);
  }
  recording.stop();
}

}  // namespace

TEST_CASE("the memory timeline draws each moment as a bar and marks the peak", "[memory]") {
  MemoryRecording recording({});
  record(recording);
  const std::size_t start = recording.start().total();
  const std::string text = memory_timeline(recording, 1000);
  CHECK(count(text, "\n") == 1 + 1000 + 1);
  CHECK(count(text, "< peak") == 1);
  CHECK_THAT(text, ContainsSubstring("G gradients") && ContainsSubstring("A activations") &&
                       ContainsSubstring("W workspace"));
  // With one step there is one bar, the peak: 64 letters for the bytes that were added since the start.
  const std::string one = memory_timeline(recording, 1);
  const std::size_t peak = start + (512 + 1024 + 256) * 1024;
  CHECK_THAT(one, ContainsSubstring(fmt::format("{:.2f}  ", static_cast<double>(peak) / (1 << 20))));
  const std::size_t end = one.find(" < peak\n");
  REQUIRE(end != std::string::npos);
  const std::size_t begin = one.rfind("  ", end) + 2;
  REQUIRE(end - begin == 64);
  const auto letters = static_cast<double>(count(one.substr(begin, 64), "A"));
  CHECK(std::abs(letters - 64.0 * 1024 / (512 + 1024 + 256)) <= 1);
}

TEST_CASE("a recording without events is a flat line", "[memory]") {
  MemoryRecording recording({});
  recording.stop();
  CHECK(count(memory_timeline(recording, 5), "\n") == 1 + 5 + 1);
  CHECK_THAT(memory_svg(recording), ContainsSubstring("</svg>"));
}

TEST_CASE("the memory report as a picture", "[memory]") {
  MemoryRecording recording({});
  record(recording);
  const std::string svg = memory_svg(recording);
  CHECK_THAT(svg, ContainsSubstring("<svg xmlns") && ContainsSubstring(">activations</text>") &&
                      ContainsSubstring("</svg>"));
  CHECK(count(svg, "<path") == count(svg, "Z\" class=\"s"));
  CHECK(count(svg, "nan") == 0);
}

TEST_CASE("the memory report has a line for each category in use, with the formula's bytes", "[memory]") {
  const Tensor held = take(parameters, 2048);
  MemoryRecording recording({});
  record(recording);
  const BytesByCategory& start = recording.start();
  BytesByCategory formula;
  formula[activations] = 3 << 20;
  const std::string text = memory_report(recording, formula);
  const auto line = [](const char* name, std::size_t before, std::size_t peak, std::size_t expected) {
    const auto mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    return fmt::format("\n{:<22} {:>12.2f} {:>12.2f} {:>12.2f}\n", name, mib(before), mib(peak),
                       mib(expected));
  };
  const std::size_t kib = 1024;
  CHECK_THAT(text, ContainsSubstring(line("parameters", start[parameters], start[parameters], 0)));
  CHECK_THAT(text, ContainsSubstring(line("gradients", start[gradients], start[gradients] + 512 * kib, 0)));
  CHECK_THAT(text, ContainsSubstring(
                       line("activations", start[activations], start[activations] + 1024 * kib, 3 << 20)));
  CHECK_THAT(text, ContainsSubstring(
                       line("total", start.total(), start.total() + (512 + 1024 + 256) * kib, 3 << 20)));
  CHECK(count(text, "optimizer state") == (start[optimizer_state] > 0 ? 2 : 0));  // here and in the legend
  CHECK_THAT(text, ContainsSubstring("< peak"));
}

}  // namespace ringtape::test
