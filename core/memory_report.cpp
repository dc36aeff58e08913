#include "core/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ringtape {
namespace {

constexpr int kBarWidth = 64;
constexpr const char* kLetters = ".PGOAaWD";  // by the category's number
constexpr std::array<const char*, kMemoryCategories> kColours = {"#9e9e9e", "#1f77b4", "#d62728", "#2ca02c",
                                                                 "#ff7f0e", "#ffbb78", "#9467bd", "#8c564b"};

double mib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

MemoryCategory category(std::size_t number) {
  return static_cast<MemoryCategory>(number);
}

/// What was live from a moment on.
struct Level {
  double seconds;
  BytesByCategory live;
};

double seconds_into(const MemoryRecording& recording, const MemoryEvent& event) {
  return std::chrono::duration<double>(event.time - recording.begin()).count();
}

/// The start, and the level after each event.
std::vector<Level> levels_of(const MemoryRecording& recording) {
  std::vector<Level> levels = {{0, recording.start()}};
  for (const MemoryEvent& event : recording.events()) {
    Level next{seconds_into(recording, event), levels.back().live};
    next.live[event.category] += static_cast<std::size_t>(event.bytes);  // modulo 2^64: less where negative
    levels.push_back(next);
  }
  return levels;
}

/// The first level with most memory.
const Level& highest(const std::vector<Level>& levels) {
  return *std::max_element(levels.begin(), levels.end(),
                           [](const Level& a, const Level& b) { return a.live.total() < b.live.total(); });
}

/// What each category has at all times.
BytesByCategory common(const std::vector<Level>& levels) {
  BytesByCategory least = levels.front().live;
  for (const Level& level : levels) {
    for (std::size_t i = 0; i < kMemoryCategories; ++i) {
      least.bytes[i] = std::min(least.bytes[i], level.live.bytes[i]);
    }
  }
  return least;
}

BytesByCategory difference(const BytesByCategory& a, const BytesByCategory& b) {
  BytesByCategory result;
  for (std::size_t i = 0; i < kMemoryCategories; ++i) result.bytes[i] = a.bytes[i] - b.bytes[i];
  return result;
}

/// The level with most memory in each of `rows` steps of equal length; a step without an event has the one
/// before it.
std::vector<Level> highest_of_steps(const std::vector<Level>& levels, int rows) {
  const double step = levels.back().seconds / rows;
  std::vector<Level> highest;
  std::size_t next = 0;
  for (int row = 0; row < rows; ++row) {
    const std::size_t before = next == 0 ? 0 : next - 1;
    Level best{row * step, levels[before].live};
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
  std::string text =
      fmt::format("{:<22} {:>12} {:>12} {:>12}\n", "memory, MiB", "before", "at the peak", "by formula");
  const auto line = [&](const char* name, std::size_t first, std::size_t most, std::size_t expected) {
    text += fmt::format("{:<22} {:>12.2f} {:>12.2f} {:>12.2f}\n", name, mib(first), mib(most), mib(expected));
  };
  for (std::size_t i = 1; i <= kMemoryCategories; ++i) {
    const MemoryCategory each = category(i % kMemoryCategories);  // other comes last
    if (before[each] + peak[each] + formula[each] == 0) continue;
    line(name_of(each), before[each], peak[each], formula[each]);
  }
  line("total", before.total(), peak.total(), formula.total());
  if (apart > 0) text += fmt::format("{:<22} {:>12.2f} {:>12.2f}\n", "data set", mib(apart), mib(apart));
  return text;
}

}  // namespace

std::string memory_timeline(const MemoryRecording& recording, int rows) {
  const std::vector<Level> levels = levels_of(recording);
  const BytesByCategory always = common(levels);
  const std::size_t most = highest(levels).live.total();
  std::string text = fmt::format("{:>10} {:>10}  of which beyond {:.2f} MiB that are always there:\n", "ms",
                                 "MiB", mib(always.total()));
  BytesByCategory used;
  bool marked = false;
  for (const Level& level : highest_of_steps(levels, rows)) {
    const BytesByCategory passing = difference(level.live, always);
    for (std::size_t i = 0; i < kMemoryCategories; ++i) used.bytes[i] += passing.bytes[i];
    const bool is_peak = !marked && level.live.total() == most;
    marked = marked || is_peak;
    text += fmt::format("{:>10.3f} {:>10.2f}  {}{}\n", level.seconds * 1e3, mib(level.live.total()),
                        bar(passing, most - always.total()), is_peak ? " < peak" : "");
  }
  text += "           ";
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    if (used.bytes[i] > 0) text += fmt::format("  {} {}", kLetters[i], name_of(category(i)));
  }
  return text + '\n';
}

std::string memory_csv(const MemoryRecording& recording) {
  std::string text = "seconds,category,bytes,live\n";
  std::size_t live = recording.start().total();
  for (const MemoryEvent& event : recording.events()) {
    live += static_cast<std::size_t>(event.bytes);
    text += fmt::format("{:.9f},{},{},{}\n", seconds_into(recording, event), name_of(event.category),
                        event.bytes, live);
  }
  return text;
}

std::string memory_svg(const MemoryRecording& recording) {
  constexpr double kWidth = 900, kHeight = 360, kLeft = 70, kTop = 20, kLegend = 190;
  const std::vector<Level> levels = levels_of(recording);
  const double duration = std::max(levels.back().seconds, 1e-9);
  const double most = std::max<double>(static_cast<double>(highest(levels).live.total()), 1);
  const auto x = [&](double seconds) { return kLeft + kWidth * seconds / duration; };
  const auto y = [&](std::size_t bytes) { return kTop + kHeight * (1 - static_cast<double>(bytes) / most); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kLeft + kWidth + kLegend, kTop + kHeight + 40);
  int rows = 0;
  // Each category's area hides what the larger sums before it drew below.
  for (std::size_t i = kMemoryCategories; i-- > 0;) {
    std::string steps = fmt::format("M{:.1f},{:.1f}", x(0), y(0));
    std::size_t before = 0, largest = 0;
    for (const Level& level : levels) {
      largest = std::max(largest, level.live.bytes[i]);
      const auto first = level.live.bytes.begin();
      const std::size_t sum =
          std::accumulate(first, first + static_cast<std::ptrdiff_t>(i) + 1, std::size_t{0});
      if (sum == before) continue;
      before = sum;
      steps += fmt::format("H{:.1f}V{:.1f}", x(level.seconds), y(sum));
    }
    if (largest == 0) continue;
    svg +=
        fmt::format("<path d=\"{}H{:.1f}V{:.1f}Z\" fill=\"{}\"/>\n", steps, x(duration), y(0), kColours[i]);
    const double row = kTop + 20 * ++rows;
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
        kLeft + kWidth + 15, row - 11, kColours[i], kLeft + kWidth + 33, row, name_of(category(i)));
  }
  svg += fmt::format("<text x=\"5\" y=\"{}\">{:.2f} MiB</text><text x=\"5\" y=\"{}\">0</text>\n", kTop + 5,
                     most / (1024 * 1024), kTop + kHeight);
  return svg + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.2f} ms</text>\n</svg>\n",
                           kLeft + kWidth, kTop + kHeight + 20, duration * 1e3);
}

std::string memory_report(const MemoryRecording& recording, const BytesByCategory& formula,
                          const BytesByCategory& apart) {
  const std::vector<Level> levels = levels_of(recording);
  return memory_table(difference(levels.front().live, apart), difference(highest(levels).live, apart),
                      formula, apart.total()) +
         '\n' + memory_timeline(recording);
}

}  // namespace ringtape
