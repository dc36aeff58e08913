#pragma once

#include <vector>

#include "planner/collective_time.h"

namespace ringtape::planner {

/// Runs a collective message by message, as a discrete-event simulation: an event is the arrival of a message
/// at a rank, which then sends every message that is ready. A link carries one message after the other, in
/// the order of sending.
///
/// times: [rank], in: when the rank calls the collective; out: when it has received every message that it
/// waits for, and every message that it sent has left. Throws Error as check_ranks() does, and for another
/// number of times than ranks.
void simulate_collective(const Cluster& cluster, const CollectiveProblem& problem,
                         std::vector<double>& times);

/// The number of messages that simulate_collective() sends.
double message_count(const Cluster& cluster, const CollectiveProblem& problem);

}  // namespace ringtape::planner
