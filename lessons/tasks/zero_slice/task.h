#pragma once

#include <cstdint>
#include <functional>

/// Elements first to first + count - 1.
struct Slice {
  std::int64_t first, count;
};

/// The operations of an update in ZeRO stage 1. All ranks call each of them.
struct Operations {
  std::function<void()> reduce_scatter;      ///< makes the gradients of the own slice means over the ranks
  std::function<void(Slice own)> optimizer;  ///< updates the values of `own` by their gradients
  std::function<void()> all_gather;          ///< gets every slice's values from its owner
};

/// The slice that a rank owns. The slices of all ranks cover each element exactly once, and their lengths
/// differ by at most 1.
extern "C" Slice slice_of(std::int64_t elements, int rank, int ranks);

/// One update of a rank.
extern "C" void zero_update(std::int64_t elements, int rank, int ranks, const Operations& operations);
