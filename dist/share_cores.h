#pragma once

#include <array>
#include <cstdint>
#include <span>

/// Ranks on one machine divide its cores among themselves, so that their OpenMP threads do not compete for
/// cores. A launcher that binds each rank to its own cores (mpirun with few ranks) has already done so;
/// without that, each of n ranks would start one thread for every core of the machine.
namespace ringtape {

/// The cores that a process may run on: a bit for each.
using CoreMask = std::array<std::uint64_t, 16>;

/// The cores of this process.
CoreMask usable_cores();

/// The number of threads for a rank that may use the cores of `own`; `all` has the cores of every rank of its
/// machine, including its own. Each core is shared evenly by the ranks that may use it, and the sum of a
/// rank's shares is rounded down; at least 1.
int threads_of_rank(const CoreMask& own, std::span<const CoreMask> all);

/// Sets the number of threads of the calling thread's parallel regions to threads_of_rank(), if that is fewer
/// than the current number and the user has not set OMP_NUM_THREADS.
void share_cores(const CoreMask& own, std::span<const CoreMask> all);

}  // namespace ringtape
