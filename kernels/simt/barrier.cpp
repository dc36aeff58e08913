#include "kernels/simt/barrier.h"

#include <algorithm>

namespace ringtape::simt {

void result_of_sync(Warp&, unsigned, Combine) {}

void result_of_shuffle(Warp& warp, unsigned lanes, Combine) {
  for (int lane = 0; lane < kWarp; ++lane) {
    if (!contains(lanes, lane)) continue;
    const int source = warp.sources[lane];
    // On a GPU the value from a lane that does not take part is undefined; here it is NaN, or -1.
    warp.results[lane] = contains(lanes, source) ? warp.words[source] : ~std::uint64_t{0};
  }
}

void result_of_ballot(Warp& warp, unsigned lanes, Combine) {
  std::uint64_t votes = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    if (contains(lanes, lane)) votes |= warp.words[lane] << lane;
  }
  std::fill_n(warp.results, kWarp, votes);
}

void result_of_combine(Warp& warp, unsigned lanes, Combine combine) {
  std::fill_n(warp.results, kWarp, combine(warp.words, std::popcount(lanes)));
}

}  // namespace ringtape::simt
