#pragma once

#include <string>

#include "core/memory.h"

/// Texts and pictures of memory use.
namespace ringtape {

/// The recording as a chart of characters. Time runs downwards in `rows` steps of equal length; each line
/// shows the moment of its step with the most memory: its bytes, and a bar of the bytes that come and go,
/// with one letter for each category. (Bytes that a category has at all times are left out of the bar, to
/// leave room for the others.)
std::string memory_timeline(const MemoryRecording& recording, int rows = 32);

/// The recording as an SVG picture: time to the right, the categories stacked upwards.
std::string memory_svg(const MemoryRecording& recording);

/// The memory report of one recorded update: a table of all categories in use with their bytes before the
/// update, at its peak, and by formula (nn/memory_estimate.h); then memory_timeline(). `apart` is memory that
/// the formula does not contain, such as a data set; it has a separate line.
std::string memory_report(const MemoryRecording& recording, const BytesByCategory& formula,
                          const BytesByCategory& apart = {});

}  // namespace ringtape
