#pragma once

#include <string>

#include "core/memory.h"

/// Texts and pictures of where memory went.
namespace ringtape {

/// The recording as a chart of characters. Time runs downwards in `rows` steps of equal length; each line
/// shows the moment of its step with most memory: its bytes, and as a bar, one letter a category, those of
/// them that come and go. (What each category has all the time would leave no room for them.)
std::string memory_timeline(const MemoryRecording& recording, int rows = 32);

/// One line an event: seconds, category, bytes (negative: given back), bytes live afterwards.
std::string memory_csv(const MemoryRecording& recording);

/// The recording as an SVG picture: time to the right, the categories stacked upwards.
std::string memory_svg(const MemoryRecording& recording);

/// What a training program prints for one update, recorded: a table of all categories in use with their bytes
/// before it, at its peak, and by formula (nn/memory_estimate.h); then memory_timeline(). `apart` is what the
/// formula does not know of, such as a data set in memory: it has a line of its own.
std::string memory_report(const MemoryRecording& recording, const BytesByCategory& formula,
                          const BytesByCategory& apart = {});

}  // namespace ringtape
