#pragma once

#include <cstddef>

#include "autograd/tape_graph.h"
#include "plot/canvas.h"

namespace ringtape {

/// A picture of the first `most` operations, from top to bottom in rows: an operation stands in the row below
/// the lowest one that it is computed from, its leaves and inputs to the left of it.
svg::Canvas tape_svg(const TapeGraph& graph, std::size_t most = 1000);

}  // namespace ringtape
