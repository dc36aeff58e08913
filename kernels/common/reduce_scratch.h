#pragma once

#include <cstdint>

#include "core/stream.h"

namespace ringtape {

/// The partial sums of a launch's blocks, for the block that finishes last.
struct ReduceScratch {
  static constexpr int kMaxBlocks = 2048;
  double partial[kMaxBlocks];
  unsigned blocks_done;  ///< 0 between launches: the last block resets it
};

/// The scratch of this stream, on its device. Launches on one stream run one after the other, so they can
/// share it. The first call for a stream allocates, so it must come before a graph capture of that stream.
ReduceScratch* reduce_scratch(const Stream& stream);

}  // namespace ringtape
