#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"
#include "planner/parallel_way.h"

/// Which mesh trains a GPT fastest: every way of dividing batch and model over a number of ranks, with its
/// memory (nn/gpt_estimate.h), its traffic (parallel_traffic.h) and the time of a step (training_step.h).
namespace ringtape::planner {

/// Ways of a mesh and ZeRO stage that are not possible.
struct LeftOut {
  MeshSizes mesh;
  int zero = 0;
  std::int64_t least_bytes = 0;  ///< of the way with the least memory, where that is the reason; else 0
  std::string reason;
};

struct ParallelPlans {
  std::vector<ParallelPlan> plans;  ///< of each mesh and ZeRO stage the fastest way that fits, by their time
  std::vector<LeftOut> left_out;
  std::int64_t ways = 0;  ///< that were computed
};

/// Goes through all tensor x context x pipeline x data ranks, ZeRO stages, with and without resharding,
/// sequence parallelism, recomputation of no or of each block, 1, 2 and 4 chunks a stage, and micro-batches
/// of as many samples as divide a rank's; what the request fixes is not searched.
///
/// The time is that of step_of(), with data-parallel collectives that overlap as in simulate_steps().
///
/// Neighbouring ranks differ in the tensor dimension, then in context, data and pipeline (dist/mesh.h); lines
/// of ranks that leave a node at the same time share its adapters.
///
/// Throws Error for sizes out of range, for ranks that do not fill nodes, and where nothing fits, with the
/// least memory that any way would take.
ParallelPlans plan_parallel(const ParallelRequest& request);

/// The first `most` plans as a table, all of the first, and why others are left out.
std::string parallel_text(const ParallelRequest& request, const ParallelPlans& plans, std::int64_t most);
Json parallel_json(const ParallelRequest& request, const ParallelPlans& plans);

}  // namespace ringtape::planner
