#pragma once

#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// Bytes that a rank sends for a collective of `bytes` over `world_size` ranks, by formula: the mean over the
/// ranks, for an algorithm that loads all links equally, such as a ring. With n ranks and B bytes in the
/// larger buffer:
///
///   all_reduce                             2 (n - 1) / n B
///   all_gather, reduce_scatter             (n - 1) / n B
///   broadcast, reduce, gather, scatter     (n - 1) / n B
///
/// bytes_on_link() (dist/slow_link.h) counts the bytes on the busiest link instead: for a broadcast or reduce
/// all of B.
///
/// An exchange counts as B; a barrier, and connect, split and disconnect, as 0. A library may send more.
double bytes_sent(Operation operation, int world_size, double bytes);

/// The calls and bytes between two states of Communicator::collectives().
CollectiveCounts difference(const CollectiveCounts& before, const CollectiveCounts& after);

/// The sum of bytes_sent() over all operations.
double bytes_sent(const CollectiveCounts& counts, int world_size);

/// These calls as a table titled with `group` (Communicator::group()): a line for each operation with its
/// calls, the bytes of its tensors, and bytes_sent().
std::string traffic_table(const CollectiveCounts& counts, const std::string& group, int world_size);

}  // namespace ringtape
