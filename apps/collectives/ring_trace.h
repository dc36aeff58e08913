#pragma once

#include <string>
#include <vector>

#include "dist/communicator.h"
#include "dist/ring_all_reduce.h"

/// What ring_all_reduce did, rank by rank and step by step.
namespace ringtape {

/// The steps of a run, and the sums in the chunks after each.
struct RingTrace {
  /// A chunk that is sent to the next rank.
  struct Move {
    int chunk;
    std::int64_t elements;
  };
  int world_size = 0;
  int steps = 0;
  std::vector<std::vector<Move>> moves;  ///< [step][sending rank]
  /// [step][rank][chunk]: the ranks whose values are in the chunk before that step, as bits; [steps]: at the
  /// end.
  std::vector<std::vector<std::vector<unsigned>>> held;
};

/// Runs ring_all_reduce over a small tensor and gathers the steps of all ranks on rank 0; on other ranks the
/// result is empty. At most 24 ranks. Throws Error if a sum is wrong.
RingTrace trace_ring(Communicator& comm);

/// The steps as text: a line for each, then the sums in the chunks.
std::string to_text(const RingTrace& trace);
/// The steps as an SVG picture: a panel for each, a row for each rank, a cell for each chunk, coloured if its
/// sum is complete, an arrow for each move.
std::string to_svg(const RingTrace& trace);

}  // namespace ringtape
