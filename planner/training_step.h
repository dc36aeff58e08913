#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/collective_time.h"
#include "planner/jitter.h"

namespace ringtape::planner {

/// A step of data-parallel training, as DataParallel takes it: A micro-batches, each a forward and a
/// backward; gradients in buckets, whose collectives run one after the other during backward; the update.
struct StepModel {
  double forward = 0;             ///< seconds of one micro-batch
  double backward = 0;            ///< seconds of one micro-batch
  double update = 0;              ///< seconds of the optimizer on the parameters that a rank updates
  std::int64_t accumulation = 1;  ///< A
  // Of a model that ranks divide between them (parallel_way.h); a rank here stands for those of one model.
  double exposed = 0;         ///< seconds of a forward, and of a backward, in which it communicates within
  double bubble = 0;          ///< seconds of a step in which a stage waits for the pipeline to fill and drain
  double sums = 0;            ///< seconds of a step for the gradients of weights that several stages have
  std::int64_t together = 1;  ///< ranks that compute a micro-batch together, of which the slowest tells
  /// Bytes of gradients that each bucket sends, in the order in which backward completes them. Backward and
  /// forward take time for a bucket by its share of these.
  std::vector<double> buckets;
  /// Bytes of parameters that ZeRO gathers, over bytes of gradients.
  double gathered_per_gradient = 1;
  bool overlap = true;             ///< false: collectives begin after backward
  bool every_micro_batch = false;  ///< reduces after each micro-batch, as without no_sync()
  int zero = 0;                    ///< ZeRO stage (Rajbhandari et al., 2020)
  bool reshard = true;             ///< stage 3 gathers again in backward
};

/// The collective that reduces a bucket's gradients: all-reduce, or from ZeRO stage 1 on reduce-scatter.
Collective reduction_of(int zero);

/// Runs a collective: `times` holds when each rank calls it, and afterwards when each rank finishes it.
using Communicate = std::function<void(Collective kind, double bytes, std::vector<double>& times)>;

/// Seconds of a step, as a mean over `steps`.
struct StepTimes {
  double step = 0;
  double computing = 0;      ///< of the mean rank
  double waiting = 0;        ///< the slowest rank's computing beyond that
  double bubble = 0;         ///< waiting for a pipeline to fill and drain
  double exposed = 0;        ///< time added by communication: step - computing - waiting - bubble
  double communicating = 0;  ///< time with a collective in progress
};

/// Takes `steps` steps on n ranks, one after the other.
///
/// stage 0: an all-reduce of each bucket, in the last micro-batch's backward.
/// stage 1: a reduce-scatter of each bucket in that backward, and all-gathers of the parameters after the
/// update, which the next forward hides, so that they are counted at a step's begin.
/// stage 2: the same, with reduce-scatters in every micro-batch, as a rank keeps only its own shard. stage 3:
/// as stage 2, but the parameters are gathered bucket by bucket before each is used, in forward and
///   again in backward, the next bucket while one computes; nothing after the update.
StepTimes simulate_steps(const StepModel& model, std::int64_t ranks, std::int64_t steps, Jitter jitter,
                         const Communicate& communicate);

}  // namespace ringtape::planner
