#pragma once

#include <cstdint>

namespace ringtape {

/// A seed and a position in its Philox stream. Every random operation takes the number of counters that it
/// uses, so a generator copied before an operation repeats it exactly.
struct Generator {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;

  explicit Generator(std::uint64_t seed_value) : seed(seed_value) {}
  /// Reserves `count` counters and returns the first.
  std::uint64_t take(std::uint64_t count) {
    const std::uint64_t first = offset;
    offset += count;
    return first;
  }
};

/// The generator that operations use when none is given: one per thread, with seed 0 at first.
Generator& default_generator();
/// Restarts this thread's default_generator() from `seed`.
void manual_seed(std::uint64_t seed);

}  // namespace ringtape
