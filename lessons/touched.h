#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringtape {

/// Who of a block touches an element: nobody, some thread of it, one of the chosen warp, the chosen thread.
enum class Toucher : std::uint8_t { nobody, block, warp, thread };

/// What a kernel does with a square matrix in global memory, by its accesses.
struct TouchedMatrix {
  std::string name;                 ///< "A", "B" or "C"
  std::vector<Toucher> by;          ///< of each element, in the chosen block and step
  std::int64_t block_accesses = 0;  ///< by the chosen block, of elements, in all steps
  std::int64_t block_elements = 0;  ///< different ones
  std::int64_t all_accesses = 0;    ///< by all blocks
};

struct TouchedProduct {
  std::string rung;
  int size = 0;
  int threads = 0;                      ///< in a block
  int steps = 0;                        ///< times that the chosen block reads A and B between two barriers
  std::vector<TouchedMatrix> matrices;  ///< A, B, C
};

/// A thread of a launch, and a step along k; step -1 is all of them together.
struct Watched {
  int block_x = 0, block_y = 0, thread = 0, step = -1;
};

/// Runs a rung of the GEMM ladder for matrices of `size` x `size` on the CPU and notes which elements of
/// global memory its threads read and write. Throws Error for an unknown rung, a size that is no multiple of
/// 128, and a block, thread or step that the launch does not have.
TouchedProduct watch_gemm(int version, int size, const Watched& watched);

}  // namespace ringtape
