#pragma once

#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// Bytes that a rank sends for a collective of `bytes` over `world_size` ranks, by formula: for an algorithm
/// that loads all links equally, such as a ring. With n ranks and bytes B, of the larger buffer:
///
///   all_reduce                             2 (n - 1) / n B
///   all_gather, reduce_scatter             (n - 1) / n B
///   broadcast, reduce, gather, scatter     (n - 1) / n B   the mean over the ranks
///
/// This is the mean over the ranks. bytes_on_link() (dist/slow_link.h) counts the bytes on the busiest link:
/// for a broadcast or reduce all of B.
///
/// An exchange counts as B; a barrier, and connect, split and disconnect, as 0. A library may send more.
double bytes_sent(Operation operation, int world_size, double bytes);

/// The calls between two states of Communicator::collectives().
CollectiveCounts difference(const CollectiveCounts& before, const CollectiveCounts& after);

/// bytes_sent() of all calls.
double bytes_sent(const CollectiveCounts& counts, int world_size);

/// These calls of the ranks of `group` (Communicator::group()) as a table: a line for each operation with
/// calls, bytes of its tensors, and bytes_sent().
std::string traffic_table(const CollectiveCounts& counts, const std::string& group, int world_size);

}  // namespace ringtape
