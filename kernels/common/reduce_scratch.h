#pragma once

#include <cstdint>

#include "core/stream.h"

namespace ringtape {

/// The partial sums of a launch's blocks, for the block that finishes last: of all blocks, or of the blocks
/// that share a sum.
struct ReduceScratch {
  static constexpr int kMaxBlocks = 2048;
  static constexpr int kMaxPartials = 32768;
  static constexpr int kMaxGroups = 512;
  double partial[kMaxPartials];
  unsigned blocks_done;                ///< 0 between launches: the last block resets it
  unsigned of_group_done[kMaxGroups];  ///< likewise, of each group of blocks
};

/// The scratch of this stream, on its device. Launches on one stream run one after the other, so they can
/// share it. The first call for a stream allocates, so it must come before a graph capture of that stream.
ReduceScratch* reduce_scratch(const Stream& stream);

}  // namespace ringtape
