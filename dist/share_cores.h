#pragma once

#include <array>
#include <cstdint>
#include <span>

/// Ranks on one machine share its cores out among themselves, so that their OpenMP threads do not fight for
/// them. A launcher that binds each rank to cores of its own (mpirun with few ranks) has done so already;
/// without that, each of n ranks would start as many threads as the machine has cores.
namespace ringtape {

/// The cores that a process may run on: a bit for each.
using CoreMask = std::array<std::uint64_t, 16>;

/// Of this process.
CoreMask usable_cores();

/// Threads of a rank that may use the cores of `own`, among the ranks of its machine, itself included, that
/// may use those of `all`: each core is shared evenly by the ranks that may use it, and the parts are rounded
/// down; at least 1.
int threads_of_rank(const CoreMask& own, std::span<const CoreMask> all);

/// Gives the calling thread's parallel regions that many threads, where that is fewer than they have and the
/// user has not set OMP_NUM_THREADS.
void share_cores(const CoreMask& own, std::span<const CoreMask> all);

}  // namespace ringtape
