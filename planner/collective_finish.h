#pragma once

#include <vector>

#include "planner/collective_time.h"

namespace ringtape::planner {

/// When each rank is done with a collective, in closed form from when each calls it; what
/// simulate_collective() finds out message by message.
///
/// times: [rank], in: when the rank calls; out: when it is done.
///
/// After K steps of a ring rank r is done at the latest of a_q + (what h messages take from q to r) + (K - h)
/// w over all ranks q, where q is h messages away and calls at a_q, and w is how long a chunk keeps the
/// slowest link between them busy. In the tree the last segment leaves the root once those of all ranks have
/// come up.
void finish_collective(const Cluster& cluster, const CollectiveProblem& problem, std::vector<double>& times);

}  // namespace ringtape::planner
