#pragma once

#include <string>

#include "core/memory.h"

/// Texts and pictures of where memory went.
namespace ringtape {

/// A table of all categories in use: bytes live now and when the most was live, and beside them, where it is
/// given, what a formula says (nn/memory_estimate.h). MiB with two decimals.
std::string memory_table(const MemoryStats& stats, const BytesByCategory* formula = nullptr);

/// The recording as a chart of characters. Time runs downwards in at most `rows` steps of equal length; each
/// line shows the moment of its step with most memory as a bar, one letter a category, and marks the highest.
std::string memory_timeline(const MemoryRecording& recording, int rows = 32);

/// One line an event: seconds, category, bytes (negative: given back), bytes live afterwards.
std::string memory_csv(const MemoryRecording& recording);

/// The recording as an SVG picture: time to the right, the categories stacked upwards.
std::string memory_svg(const MemoryRecording& recording);

/// What a training program prints at the end: memory_table() of the device now, and memory_timeline().
std::string memory_report(Device device, const MemoryRecording& recording, const BytesByCategory& formula);

}  // namespace ringtape
