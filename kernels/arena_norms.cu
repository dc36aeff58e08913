#include "kernels/common/kernel.h"

#include "kernels/arena_kernel.h"
#include "kernels/arena_norms.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// The first tile of parameter p, by binary search: tiles are sorted by parameter.
__device__ std::int64_t first_tile_of(const ArenaView& arena, std::int64_t p) {
  std::int64_t low = 0;
  std::int64_t high = arena.tile_count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (arena.tiles[middle].parameter < p) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// One block for each parameter.
__global__ void parameter_norms(ArenaView arena, const SquaredNorms* of_tiles, SquaredNorms* of_parameters) {
  const std::int64_t p = blockIdx.x;
  if (!takes_part(arena, p)) return;
  SquaredNorms sum{};
  std::int64_t t = first_tile_of(arena, p) + threadIdx.x;
  for (; t < arena.tile_count && arena.tiles[t].parameter == p; t += blockDim.x) {
    sum.values += of_tiles[t].values;
    sum.step += of_tiles[t].step;
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
