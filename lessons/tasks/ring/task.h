#pragma once

#include <cstddef>
#include <functional>
#include <span>

/// A rank of a ring. `exchange` sends `out` to the next rank, rank + 1, and fills `in` with what the rank
/// before has sent; all ranks call it at the same time. After the last rank comes rank 0.
struct Ring {
  int rank, ranks;
  std::function<void(std::span<const float> out, std::span<float> in)> exchange;
};

/// `values` is divided into as many equal chunks as there are ranks. Afterwards chunk rank + 1 (on the last
/// rank chunk 0) holds the sum over all ranks; the content of the others is undefined.
extern "C" void reduce_scatter(const Ring& ring, std::span<float> values);

/// Begins with chunk rank + 1 complete on each rank. Afterwards all chunks are complete on all ranks.
extern "C" void all_gather(const Ring& ring, std::span<float> values);
