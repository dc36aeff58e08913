#pragma once

#include "kernels/arena.h"
#include "kernels/common/launcher.h"

namespace ringtape {

/// Sums of squares over a tile or a parameter, in double, for a trust ratio.
struct alignas(16) SquaredNorms {
  double values;  ///< of the parameter
  double step;    ///< of LAMB's update, or of LARS's gradient before unscaling and clipping
};

}  // namespace ringtape

/// of_parameters[p] = the sum of of_tiles[t] over the tiles t of parameter p, for each parameter that has a
/// gradient. The order of the additions depends only on the number of tiles.
RINGTAPE_LAUNCHER(sum_tile_norms, const ArenaView& arena, const SquaredNorms* of_tiles,
                  SquaredNorms* of_parameters);
