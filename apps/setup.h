#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/options.h"
#include "core/safetensors.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

/// Makes from the flags what a run is put together from.
namespace ringtape::apps {

/// The optimizer that --optimizer names, at its --lr.
std::unique_ptr<Optimizer> make_optimizer(const TrainOptions& options, ParameterArena& arena);

/// --bucket-mib.
BucketSizes bucket_sizes(const TrainOptions& options);

/// --zero, for a run with so many ranks. Throws Error for stage 2 without overlap.
ArenaSharding make_sharding(const TrainOptions& options, int rank, int ranks);

/// Values in f32 that the optimizer keeps for each parameter.
std::int64_t state_per_parameter(const TrainOptions& options);

/// How long a run is, as far as its flags tell.
struct RunLength {
  std::int64_t samples;  ///< in an epoch
  std::int64_t updates_per_epoch;
  std::int64_t updates;  ///< in all
};

/// Updates before the rate is at its full height: --warmup, worked out where that is "auto". Throws Error for
/// a warm-up that leaves no update for the schedule after it.
std::int64_t warmup_updates(const TrainOptions& options, const RunLength& length);

/// The learning rate of every update: warm-up, then the schedule over the updates that are left. `rate` is
/// that of --lr; --lr-scaling is applied here.
Schedule make_schedule(const TrainOptions& options, double rate, const RunLength& length);

/// The schedule as a table and a chart, for --print-schedule.
std::string draw_schedule(const TrainOptions& options, const Schedule& schedule, const RunLength& length);

/// Names and tensors of the model's parameters, as files hold them.
std::vector<NamedTensor> weights_of(Module& model);

}  // namespace ringtape::apps
