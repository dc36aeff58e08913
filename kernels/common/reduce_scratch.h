#pragma once

#include <cstdint>

#include "core/stream.h"

namespace ringtape {

/// The partial results of a launch's blocks, for the block that finishes last: the last of all blocks, or of
/// the blocks that share a sum.
struct ReduceScratch {
  static constexpr int kMaxBlocks = 2048;
  static constexpr int kMaxPartials = 32768;
  static constexpr int kMaxGroups = 512;
  double partial[kMaxPartials];
  unsigned blocks_done;                ///< 0 between launches: the last block resets it
  unsigned of_group_done[kMaxGroups];  ///< likewise, of each group of blocks
};

/// The calling thread's scratch for this stream, on its device. Launches on a stream run one after the other,
/// so they can share it. A thread's first call for a stream allocates: it must precede a graph capture.
ReduceScratch* reduce_scratch(const Stream& stream);

}  // namespace ringtape
