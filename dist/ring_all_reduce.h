#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dist/communicator.h"

namespace ringtape {

/// One transfer of one rank in a ring: in a step it sends a segment of one chunk to the next rank, and
/// receives the same segment of another chunk from the previous one.
struct RingTransfer {
  int step;     ///< 0 to 2 (n - 1) - 1 of n ranks; the first half is the reduce-scatter, the second half the
                ///< all-gather
  int segment;  ///< number of the segment in the chunk
  int sent_chunk;      ///< to rank + 1
  int received_chunk;  ///< from rank - 1
  std::int64_t sent_elements;
  std::int64_t received_elements;
};

/// How the ring cuts chunks into segments.
struct RingOptions {
  std::int64_t segment_bytes = 256 * 1024;         ///< size of a segment; the last of a chunk may be shorter
  int in_flight = 4;                               ///< number of segments in flight together
  std::function<void(const RingTransfer&)> trace;  ///< called for each transfer, when it begins
};

/// Elements [first, first + count) of a tensor.
struct ElementRange {
  std::int64_t first;
  std::int64_t count;
};

/// Chunk `chunk` of `elements` elements that are divided into `chunks` as equally as possible.
ElementRange ring_chunk(std::int64_t elements, int chunks, int chunk);

/// All-reduce (sum or mean) in place, by hand: the ring algorithm of Patarasuk and Yuan, "Bandwidth optimal
/// all-reduce algorithms for clusters of workstations", 2009. The tensor is divided into one chunk for each
/// rank.
///
/// Reduce-scatter: at step s, rank r sends chunk r - s to rank r + 1 and adds the chunk that it receives,
/// chunk r - s - 1, to its own. After n - 1 steps each of the n ranks holds one complete chunk. All-gather:
/// the complete chunks go round once more and replace the others. Each rank sends 2 (n - 1) / n of the
/// tensor, the minimum if the ranks do the adding, and all links are busy all the time.
///
/// A chunk is sent in segments: while one segment is added, the next are in flight. Floating dtypes (f64 on
/// the CPU); 16-bit types are added in f32 and rounded after each addition. The result is the same on all
/// ranks; all of them must call it. On CUDA, exchanges and additions are ordered by the current stream, and
/// the host does not wait; on the CPU this returns when the all-reduce is complete. Throws Error for another
/// dtype or device, an op other than sum and mean, and options below 1.
void ring_all_reduce(Communicator& comm, const Tensor& tensor, ReduceOp op, const RingOptions& options = {});

}  // namespace ringtape
