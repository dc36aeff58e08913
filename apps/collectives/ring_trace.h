#pragma once

#include <string>
#include <vector>

#include "dist/communicator.h"
#include "dist/ring_all_reduce.h"

/// A trace of ring_all_reduce, step by step and rank by rank.
namespace ringtape {

/// The steps of a ring all-reduce, and the partial sums in the chunks before each step.
struct RingTrace {
  /// A chunk that is sent to the next rank.
  struct Move {
    int chunk;
    std::int64_t elements;
  };
  int world_size = 0;
  int steps = 0;
  std::vector<std::vector<Move>> moves;  ///< [step][sending rank]
  /// [step][rank][chunk]: the ranks whose values are summed in the chunk before that step, as a bit mask;
  /// [steps] is the end.
  std::vector<std::vector<std::vector<unsigned>>> held;
};

/// Runs ring_all_reduce on a small tensor and gathers the steps of all ranks on rank 0; on other ranks the
/// result is empty. Throws Error for fewer than 2 or more than 24 ranks, and if a sum is wrong.
RingTrace trace_ring(Communicator& comm);

/// The steps as text: a line for each, and a table of the sums in the chunks after it.
std::string to_text(const RingTrace& trace);
/// The steps as an SVG picture: a panel for each step, a row for each rank, a cell for each chunk, coloured
/// if its sum is complete, and an arrow for each move.
std::string to_svg(const RingTrace& trace);

}  // namespace ringtape
