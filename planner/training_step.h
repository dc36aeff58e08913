#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/collective_time.h"
#include "planner/jitter.h"

namespace ringtape::planner {

/// A step of data-parallel training, as DataParallel runs it: A micro-batches, each a forward and a backward;
/// gradients in buckets, whose collectives run one after the other during backward; the optimizer.
struct StepModel {
  double forward = 0;             ///< seconds of one micro-batch
  double backward = 0;            ///< seconds of one micro-batch
  double optimizer = 0;           ///< seconds of the optimizer on the parameters that a rank updates
  std::int64_t accumulation = 1;  ///< A
  // For a model that ranks divide (parallel_config.h): a rank here stands for the ranks of one model.
  double exposed = 0;  ///< seconds of communication within the model, in a forward and in a backward
  double bubble = 0;   ///< seconds of a step in which a stage waits while the pipeline fills and drains
  double sums = 0;     ///< seconds of a step for summing the gradients of tied weights
  std::int64_t together = 1;  ///< ranks that compute a micro-batch together; the slowest sets the time
  /// Bytes of gradients that each bucket sends, in the order in which backward completes them. The time of
  /// backward and forward for a bucket is its share of these bytes.
  std::vector<double> buckets;
  /// Bytes of parameters that ZeRO gathers, over bytes of gradients.
  double gathered_per_gradient = 1;
  bool overlap = true;             ///< false: collectives begin after backward
  bool every_micro_batch = false;  ///< reduce after each micro-batch, as without no_sync()
  int zero = 0;                    ///< ZeRO stage (Rajbhandari et al., 2020)
  bool reshard = true;             ///< stage 3 gathers parameters again in backward
};

/// The collective that reduces a bucket's gradients: all-reduce, or from ZeRO stage 1 on reduce-scatter.
Collective reduction_of(int zero);

/// Runs a collective: `times` holds when each rank calls it, and afterwards when each rank finishes it.
using Communicate = std::function<void(Collective kind, double bytes, std::vector<double>& times)>;

/// Seconds of a step: means over the simulated steps.
struct StepTimes {
  double step = 0;
  double computing = 0;      ///< mean over the ranks
  double waiting = 0;        ///< computing of the slowest rank beyond the mean
  double bubble = 0;         ///< waiting while a pipeline fills and drains
  double exposed = 0;        ///< time added by communication: step - computing - waiting - bubble
  double communicating = 0;  ///< time with a collective in progress
};

/// Simulates `steps` consecutive steps on `ranks` ranks.
///
/// ZeRO stage 0: an all-reduce of each bucket, in the last micro-batch's backward.
///
/// Stage 1: a reduce-scatter of each bucket in that backward, and all-gathers of the parameters after the
/// optimizer, which the next forward hides; so they are counted at the beginning of a step.
///
/// Stage 2: the same with reduce-scatters in every micro-batch, since a rank keeps only its own shard.
///
/// Stage 3: as stage 2, but the parameters are gathered bucket by bucket before they are used, in forward and
/// (with `reshard`) again in backward, the next bucket while one is computed; nothing after the optimizer.
StepTimes simulate_steps(const StepModel& model, std::int64_t ranks, std::int64_t steps, Jitter jitter,
                         const Communicate& communicate);

}  // namespace ringtape::planner
