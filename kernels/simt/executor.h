#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simt/thread_order.h"

/// Runs CUDA-style kernels on the CPU. Blocks are spread over OpenMP threads; the threads of a block take
/// turns on one OpenMP thread. A thread starts as a plain function call and keeps its stack while it waits at
/// a barrier. docs/simt.md has the details. Kernels include it only through kernels/common/kernel.h.
namespace ringtape::simt {

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct uint3 {
  unsigned x, y, z;
};

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;

/// A file and line, as std::source_location, for messages.
struct SourceLocation {
  const char* file;
  int line;
  /// The location of the call; as a default argument, the location of the function's caller.
  static constexpr SourceLocation here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Runs `thread(context)` for every thread of the grid. `kernel` is the kernel's address, from which an
/// Observer finds its name. Rethrows the error of the failing block with the lowest number. Throws Error for
/// a block of more than 1024 threads, more than 65535 blocks in y or z, or a launch inside a kernel.
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, void (*thread)(const void* context),
              const void* context, const void* kernel);

// ---- for the threads of a kernel ----

/// Number of this thread in its block, x running fastest.
int thread_rank();
/// The block's dynamic shared memory, of the size given at the launch.
void* dynamic_shared_bytes();

/// __syncthreads: returns when all threads of the block that have not returned have arrived. Throws Error
/// when threads of the block wait at different lines.
void sync_block(SourceLocation location);

/// __syncwarp: returns when all lanes in `mask` that exist and have not returned have arrived ("all
/// non-exited threads named in mask": CUDA C++ Programming Guide). If `mask` names another lane, whose word
/// is undefined, the functions below throw Error in check builds, and otherwise do not wait for that lane.
void sync_warp(unsigned mask, SourceLocation location);
/// The `word` of lane `source`; ones in every bit if `source` is not a lane that arrived, where a GPU's
/// result is undefined.
std::uint64_t shuffle_word(unsigned mask, std::uint64_t word, int source, SourceLocation location);
/// One bit for each lane of `mask` whose `predicate` holds.
unsigned ballot(unsigned mask, bool predicate, SourceLocation location);

/// Combines the words of `count` threads at a barrier.
using Combine = std::uint64_t (*)(const std::uint64_t* words, int count);
/// A barrier of all threads of the block (of the warp); each gets combine(their words in order of rank).
/// Throws Error if a thread has already returned.
std::uint64_t combine_block(std::uint64_t word, Combine combine, SourceLocation location);
std::uint64_t combine_warp(std::uint64_t word, Combine combine, SourceLocation location);

/// For models that keep a thread's operations in flight in an array of `most` elements: throws Error if
/// `count` operations fill it.
void check_in_flight(int count, int most, const char* what);

/// Reports to an Observer how many asynchronous copies (kernels/common/async_copy.h) of this thread are in
/// flight.
void note_copies_under_way(int count);
/// Reports that the caller begins a copy of `bytes` bytes to `shared`.
void note_copy_begins(void* shared, std::size_t bytes);

}  // namespace ringtape::simt
