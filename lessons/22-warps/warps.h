#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// The lane from which a lane takes a value, in groups of `width` lanes and in steps of s lanes.
enum class Shuffle {
  down,       ///< lane + s, from the widest step to the narrowest
  exclusive,  ///< lane xor s, likewise
  up,         ///< lane - s, from the narrowest step to the widest; lanes below s add nothing
};

}  // namespace ringtape

/// The kernels of the lesson "Warps and shuffles". Each runs on one warp.

/// Lane i begins with i + 1 and adds, step by step, what the shuffle brings. values[s, 32] = the lanes after
/// step s, for the log2(width) steps of a power of two `width`.
RINGTAPE_LAUNCHER(lesson_shuffles, Shuffle shuffle, int width, float* values);

/// Packs the multiples of `of` among 1 to 32, which the lanes hold, to the front of `packed`, in their order.
/// votes[0] = the result of the ballot, places[i] = the place of lane i, -1 for none.
RINGTAPE_LAUNCHER(lesson_pack, int of, int* packed, unsigned* votes, int* places);
