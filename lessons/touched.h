#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringtape {

/// Which threads of the chosen block access an element: none, one outside the chosen warp, one in that warp,
/// the chosen thread.
enum class Toucher : std::uint8_t { nobody, block, warp, thread };

/// A kernel's accesses to a square matrix in global memory.
struct TouchedMatrix {
  std::string name;                 ///< "A", "B" or "C"
  std::vector<Toucher> by;          ///< for each element, in the chosen block and step
  std::int64_t block_accesses = 0;  ///< elements read or written by the chosen block, in all steps
  std::int64_t block_elements = 0;  ///< the different elements among them
  std::int64_t all_accesses = 0;    ///< elements read or written by all blocks
};

struct TouchedProduct {
  std::string rung;
  int size = 0;
  int threads = 0;                      ///< in a block
  int steps = 0;                        ///< intervals between barriers in which the chosen block reads A or B
  std::vector<TouchedMatrix> matrices;  ///< A, B, C
};

/// A thread of a launch, and a step along k; step -1: all steps together.
struct Watched {
  int block_x = 0, block_y = 0, thread = 0, step = -1;
};

/// Runs a rung of the GEMM ladder for matrices of `size` x `size` on the CPU and notes which elements of
/// global memory its threads read and write. Throws Error for an unknown rung, a size that is no multiple of
/// 128, and a block, thread or step that the launch does not have.
TouchedProduct watch_gemm(int version, int size, const Watched& watched);

}  // namespace ringtape
