#pragma once

#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// Bytes that a collective of `bytes` over `world_size` ranks sends over the busiest link with the best
/// algorithm. With n ranks and B bytes in the larger buffer:
///
///   all_reduce                                       2 (n - 1) / n B
///   all_gather, reduce_scatter, gather, scatter      (n - 1) / n B
///   broadcast, reduce                                B
///
/// An exchange counts as B; a barrier, and connect, split and disconnect, as 0. (busbw of nccl-tests, in its
/// doc/PERFORMANCE.md, counts the same bytes.)
double bytes_on_link(CommOperation operation, int world_size, double bytes);

/// Bytes that a rank sends for the same collective: the mean over the ranks, for an algorithm that loads all
/// links equally, such as a ring. A broadcast or reduce counts as (n - 1) / n B, all others as
/// bytes_on_link(). A library may send more.
double bytes_sent(CommOperation operation, int world_size, double bytes);

/// The calls and bytes between two states of Communicator::collectives().
CollectiveCounts difference(const CollectiveCounts& before, const CollectiveCounts& after);

/// The sum of bytes_sent() over all operations.
double bytes_sent(const CollectiveCounts& counts, int world_size);

/// These calls as a table titled with `group` (Communicator::group()): a line for each operation with its
/// calls, the bytes of its tensors, and bytes_sent().
std::string traffic_table(const CollectiveCounts& counts, const std::string& group, int world_size);

}  // namespace ringtape
