#pragma once

#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// Bytes that a rank sends for a collective of `bytes` over `ranks` ranks, by formula: what an algorithm that
/// loads all links equally has to send, such as a ring. With n ranks and bytes B, of the larger buffer:
///
///   all_reduce                             2 (n - 1) / n B
///   all_gather, reduce_scatter             (n - 1) / n B
///   broadcast, reduce, gather, scatter     (n - 1) / n B   the mean over the ranks
///
/// This is what the ranks send in all, divided by their number. bytes_on_link() (dist/slow_link.h) is what
/// passes the busiest link: for a broadcast or reduce all of B.
///
/// An exchange counts as B, and a barrier and what begins and ends a connection as 0. What a library really
/// sends may be more.
double bytes_sent(Operation operation, int ranks, double bytes);

/// What each rank sent between two states of Communicator::collectives(), for each of `updates` updates: one
/// line for each operation with calls, bytes of its tensors, and bytes_sent().
std::string traffic_table(const CollectiveCounts& before, const CollectiveCounts& after, int ranks,
                          std::int64_t updates);

}  // namespace ringtape
