#pragma once

#include <cstddef>

#include "autograd/tape_graph.h"
#include "plot/canvas.h"

namespace ringtape {

/// A picture of the first `most` operations, from top to bottom in rows: an operation is in the row below the
/// lowest operation that it is computed from, with its leaves and inputs to its left.
svg::Canvas tape_svg(const TapeGraph& graph, std::size_t most = 1000);

}  // namespace ringtape
