#pragma once

#include <cstdint>
#include <functional>

/// Elements first to first + count - 1.
struct Slice {
  std::int64_t first, count;
};

/// What ZeRO's stage 1 calls in an update, each on all ranks at the same time.
struct Operations {
  std::function<void()> reduce_scatter;      ///< the mean gradient of the own slice; the others' stay partial
  std::function<void(Slice own)> optimizer;  ///< updates these values, from these gradients
  std::function<void()> all_gather;          ///< every rank's slice of the values comes from its owner
};

/// The slice that a rank owns. The slices of all ranks cover all elements, each once, and their lengths
/// differ by at most 1.
extern "C" Slice slice_of(std::int64_t elements, int rank, int ranks);

/// One update of a rank.
extern "C" void zero_update(std::int64_t elements, int rank, int ranks, const Operations& operations);
