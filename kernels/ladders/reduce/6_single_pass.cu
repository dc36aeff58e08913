#include "kernels/common/kernel.h"
//
#include "kernels/ladders/reduce/reduce.h"

/// Rung 6: 16 bytes an instruction, many elements for each thread, and one launch.
///
/// All elements are divided among at most 1024 blocks, so the end of a block costs little, and each thread
/// has several independent sums. The block that finishes last adds up the partial sums, in a fixed order: no
/// second launch, and the same bits each time. The time left is the time of reading memory.
namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void single_pass(ReduceProblem p) {
  LaneSum<float> sums;
  for_each_vec<float>(p.n, [&](std::int64_t i, auto lanes, int slot) {
    const auto values = load_vec<lanes>(p.x + i);
    for (int k = 0; k < lanes; ++k) sums.add(slot + k, p.squares ? values[k] * values[k] : values[k]);
  });
  const float of_block = block_sum(sums.total());
  if (threadIdx.x == 0) p.scratch[blockIdx.x] = of_block;
  if (!last_block_done(p.counter)) return;
  float sum = 0;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) sum += p.scratch[block];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *p.result = sum;
}

}  // namespace

void reduce_single_pass(const Stream& stream, const ReduceProblem& p) {
  launch(single_pass, reduction_shape<float>(p.n), stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
