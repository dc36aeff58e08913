#include "profile/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/numbers.h"
#include "profile/memory_levels.h"

namespace ringtape {
namespace {

constexpr int kBarWidth = 64;
constexpr const char* kLetters = ".PGOAaWD";  // by the category's number

MemoryCategory category(std::size_t number) {
  return static_cast<MemoryCategory>(number);
}

/// The bytes that each category has at all times.
BytesByCategory common(const std::vector<MemoryLevel>& levels) {
  BytesByCategory least = levels.front().live;
  for (const MemoryLevel& level : levels) {
    for (std::size_t i = 0; i < kMemoryCategories; ++i) {
      least.bytes[i] = std::min(least.bytes[i], level.live.bytes[i]);
    }
  }
  return least;
}

/// The level with the most memory in each of `rows` steps of equal length; a step without an event has the
/// level before it.
std::vector<MemoryLevel> highest_of_steps(const std::vector<MemoryLevel>& levels, int rows) {
  const double step = levels.back().seconds / rows;
  std::vector<MemoryLevel> highest;
  std::size_t next = 0;
  for (int row = 0; row < rows; ++row) {
    const std::size_t before = next == 0 ? 0 : next - 1;
    MemoryLevel best{row * step, levels[before].live};
    for (; next < levels.size() && (levels[next].seconds < (row + 1) * step || row + 1 == rows); ++next) {
      if (levels[next].live.total() > best.live.total()) best.live = levels[next].live;
    }
    highest.push_back(best);
  }
  return highest;
}

/// The categories as letters, each as long as its share of `most`.
std::string bar(const BytesByCategory& live, std::size_t most) {
  std::string text;
  std::size_t sum = 0;
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    sum += live.bytes[i];
    const double length = most == 0 ? 0 : kBarWidth * static_cast<double>(sum) / static_cast<double>(most);
    text.resize(std::max(text.size(), static_cast<std::size_t>(length + 0.5)), kLetters[i]);
  }
  return text;
}

std::string memory_table(const BytesByCategory& before, const BytesByCategory& peak,
                         const BytesByCategory& formula, std::size_t apart) {
  const bool has_formula = formula.total() > 0;
  std::string text = fmt::format("{:<22} {:>12} {:>12}{}\n", "memory, MiB", "before", "at the peak",
                                 has_formula ? "   by formula" : "");
  const auto line = [&](const char* name, std::size_t first, std::size_t most, std::size_t expected) {
    text += fmt::format("{:<22} {:>12.2f} {:>12.2f}{}\n", name, mebibytes(first), mebibytes(most),
                        has_formula ? fmt::format(" {:>12.2f}", mebibytes(expected)) : "");
  };
  for (std::size_t i = 1; i <= kMemoryCategories; ++i) {
    const MemoryCategory each = category(i % kMemoryCategories);  // other comes last
    if (before[each] + peak[each] + formula[each] == 0) continue;
    line(name_of(each), before[each], peak[each], formula[each]);
  }
  line("total", before.total(), peak.total(), formula.total());
  if (apart > 0)
    text += fmt::format("{:<22} {:>12.2f} {:>12.2f}\n", "data set", mebibytes(apart), mebibytes(apart));
  return text;
}

}  // namespace

std::string memory_timeline(const MemoryRecording& recording, int rows) {
  const std::vector<MemoryLevel> levels = memory_levels(recording);
  const BytesByCategory always = common(levels);
  const std::size_t most = peak_of(levels).live.total();
  std::string text = fmt::format("{:>10} {:>10}  of which beyond {:.2f} MiB that are always there:\n", "ms",
                                 "MiB", mebibytes(always.total()));
  BytesByCategory used;
  bool marked = false;
  for (const MemoryLevel& level : highest_of_steps(levels, rows)) {
    const BytesByCategory passing = level.live - always;
    for (std::size_t i = 0; i < kMemoryCategories; ++i) used.bytes[i] += passing.bytes[i];
    const bool is_peak = !marked && level.live.total() == most;
    marked = marked || is_peak;
    text += fmt::format("{:>10.3f} {:>10.2f}  {}{}\n", level.seconds * 1e3, mebibytes(level.live.total()),
                        bar(passing, most - always.total()), is_peak ? " < peak" : "");
  }
  text += "           ";
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    if (used.bytes[i] > 0) text += fmt::format("  {} {}", kLetters[i], name_of(category(i)));
  }
  return text + '\n';
}

std::string memory_svg(const MemoryRecording& recording) {
  const std::vector<MemoryLevel> levels = memory_levels(recording);
  return memory_picture(levels, levels.back().seconds).file();
}

std::string memory_report(const MemoryRecording& recording, const BytesByCategory& formula,
                          const BytesByCategory& apart) {
  const std::vector<MemoryLevel> levels = memory_levels(recording);
  return memory_table(levels.front().live - apart, peak_of(levels).live - apart, formula, apart.total()) +
         '\n' + memory_timeline(recording);
}

}  // namespace ringtape
