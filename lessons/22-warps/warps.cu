#include "kernels/common/kernel.h"

#include "lessons/22-warps/warps.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr unsigned kAll = 0xffffffff;  // the lanes that take part

__global__ void sum_by_shuffles(Shuffle shuffle, int width, float* values) {
  const int lane = static_cast<int>(threadIdx.x);
  float value = static_cast<float>(lane + 1);
  if (shuffle == Shuffle::up) {
    for (int step = 1; step < width; step *= 2) {
      const float other = __shfl_up_sync(kAll, value, static_cast<unsigned>(step), width);
      if (lane % width >= step) value += other;
      values[lane] = value;
      values += 32;
    }
    return;
  }
  for (int step = width / 2; step > 0; step /= 2) {
    value += shuffle == Shuffle::down ? __shfl_down_sync(kAll, value, static_cast<unsigned>(step), width)
                                      : __shfl_xor_sync(kAll, value, step, width);
    values[lane] = value;
    values += 32;
  }
}

__global__ void pack(int of, int* packed, unsigned* votes, int* places) {
  const int lane = static_cast<int>(threadIdx.x), value = lane + 1;
  const bool keeps = value % of == 0;
  const unsigned ballot = __ballot_sync(kAll, keeps);
  const int place = __popc(ballot & ((1u << lane) - 1));  // lanes before this one that keep theirs
  places[lane] = keeps ? place : -1;
  if (keeps) packed[place] = value;
  if (lane == 0) votes[0] = ballot;
}

}  // namespace

void lesson_shuffles(const Stream& stream, Shuffle shuffle, int width, float* values) {
  launch(sum_by_shuffles, {1, 32}, stream, shuffle, width, values);
}

void lesson_pack(const Stream& stream, int of, int* packed, unsigned* votes, int* places) {
  launch(pack, {1, 32}, stream, of, packed, votes, places);
}

}  // namespace ringtape::RINGTAPE_TARGET
