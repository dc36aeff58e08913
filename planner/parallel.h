#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"
#include "planner/parallel_config.h"

/// Which mesh trains a GPT fastest: every division of batch and model over a number of ranks, with its memory
/// (nn/gpt_estimate.h), its traffic (parallel_traffic.h) and the time of a step (training_step.h).
namespace ringtape::planner {

/// A mesh and ZeRO stage of which no configuration is possible or fits.
struct LeftOut {
  MeshSizes mesh;
  int zero = 0;
  std::int64_t least_bytes = 0;  ///< of the configuration with the least memory, if none fits; else 0
  std::string reason;
};

/// The result of the search.
struct ParallelPlans {
  std::vector<ParallelPlan> plans;  ///< of each mesh and ZeRO stage the fastest that fits, by time
  std::vector<LeftOut> left_out;
  std::int64_t configs = 0;  ///< number of computed configurations
};

/// Computes every division of the ranks into tensor x context x pipeline x data, with every ZeRO stage, with
/// and without resharding and sequence parallelism, recomputing no block or each block, with 1, 2 and 4
/// chunks a stage, and every micro-batch that divides a rank's samples. Values that the request fixes are not
/// searched.
///
/// The time of a step is that of step_of(), with data-parallel collectives that overlap as in
/// simulate_steps().
///
/// Neighbouring ranks differ in the tensor dimension first, then in context, data and pipeline (dist/mesh.h).
/// Groups of ranks whose messages leave a node at the same time share its adapters.
///
/// Throws Error for sizes out of range, for ranks that do not fill nodes, and if nothing fits, with the least
/// memory of all configurations.
ParallelPlans plan_parallel(const ParallelRequest& request);

/// The first `most` plans as a table, the details of the first, and why others are left out.
std::string parallel_text(const ParallelRequest& request, const ParallelPlans& plans, std::int64_t most);
Json parallel_json(const ParallelRequest& request, const ParallelPlans& plans);

}  // namespace ringtape::planner
