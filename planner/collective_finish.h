#pragma once

#include <vector>

#include "planner/collective_time.h"

namespace ringtape::planner {

/// When each rank finishes a collective, in closed form from the times at which the ranks call it.
/// simulate_collective() computes the same message by message.
///
/// times: [rank], in: when the rank calls; out: when it finishes.
///
/// After K steps of a ring, rank r finishes at the maximum over all ranks q of a_q + (time of h messages from
/// q to r) + (K - h) w. Rank q is h messages away and calls at a_q; w is the time for which a chunk keeps the
/// slowest link between them busy. In the tree the last segment leaves the root once the last segments of all
/// ranks have come up. Throws Error as check_ranks() does, and for another number of times than ranks.
void finish_collective(const Cluster& cluster, const CollectiveProblem& problem, std::vector<double>& times);

}  // namespace ringtape::planner
