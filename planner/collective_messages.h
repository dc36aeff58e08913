#pragma once

#include <vector>

#include "planner/collective_time.h"

namespace ringtape::planner {

/// Runs a collective message by message, as a discrete-event simulation: an event is the arrival of a message
/// at a rank, which then sends on what it can. A link carries one message after the other, in the order in
/// which they were given to it.
///
/// times: [rank], in: when the rank calls the collective; out: when it has received all that it waits for,
/// and all that it sent has left.
void simulate_collective(const Cluster& cluster, const CollectiveProblem& problem,
                         std::vector<double>& times);

/// How many messages that takes.
double message_count(const Cluster& cluster, const CollectiveProblem& problem);

}  // namespace ringtape::planner
