#include "kernels/common/kernel.h"

#include "kernels/arena_kernel.h"
#include "kernels/arena_norms.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// The first tile of parameter p or of a later one, by binary search: tiles are sorted by parameter. An int
/// can count the tiles, because a grid has a block for each.
__device__ int first_tile_of(const ArenaView& arena, int p) {
  int low = 0, high = static_cast<int>(arena.tile_count);
  while (low < high) {
    const int middle = (low + high) / 2;
    if (arena.tiles[middle].parameter < p) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Tiles begin to end - 1.
struct TileRange {
  int begin, end;
};

/// The tiles of parameter p.
__device__ TileRange tiles_of(const ArenaView& arena, int p) {
  if constexpr (kGpuGeometry) {
    // Each step waits for memory, so the lanes of a warp search for both ends at the same time.
    const int found = first_tile_of(arena, p + thread_rank() % 2);
    return {__shfl_sync(0xffffffffu, found, 0), __shfl_sync(0xffffffffu, found, 1)};
  }
  TileRange range{first_tile_of(arena, p), static_cast<int>(arena.tile_count)};
  for (int t = range.begin; t < range.end; ++t) {
    if (arena.tiles[t].parameter != p) range.end = t;
  }
  return range;
}

/// One block for each parameter.
__global__ void parameter_norms(ArenaView arena, const SquaredNorms* of_tiles, SquaredNorms* of_parameters) {
  const int p = static_cast<int>(blockIdx.x);
  if (!takes_part(arena, p)) return;
  SquaredNorms sum{};
  const TileRange range = tiles_of(arena, p);
  // A parameter may have thousands of tiles but has one block: four loads are in flight together.
#pragma unroll 4
  for (int t = range.begin + thread_rank(); t < range.end; t += block_threads()) {
    const SquaredNorms of_tile = of_tiles[t];
    sum.values += of_tile.values;
    sum.step += of_tile.step;
  }
  sum.values = block_sum(sum.values);
  sum.step = block_sum(sum.step);
  if (threadIdx.x == 0) of_parameters[p] = sum;
}

}  // namespace

void sum_tile_norms(const Stream& stream, const ArenaView& arena, const SquaredNorms* of_tiles,
                    SquaredNorms* of_parameters) {
  const LaunchShape shape{static_cast<unsigned>(arena.parameter_count), kGpuGeometry ? 256u : 1u};
  launch(parameter_norms, shape, stream, arena, of_tiles, of_parameters);
}

}  // namespace ringtape::RINGTAPE_TARGET
