#pragma once

#include <cstdint>
#include <string>

#include "optim/schedule.h"
#include "train/options.h"

/// The learning rate of a run, from its options.
namespace ringtape {

/// The length of a run.
struct RunLength {
  std::int64_t samples = 0;          ///< in an epoch, on all ranks
  std::int64_t steps_per_epoch = 0;  ///< including a last step with fewer samples
  std::int64_t steps = 0;            ///< in total
};

/// The length of a run with `samples` training samples in an epoch. Throws Error above 2^50 steps.
RunLength run_length(const DataOptions& options, std::int64_t samples);

/// Whether the number of warm-up steps follows from the length of the run.
bool warmup_follows_length(const ScheduleOptions& options);
/// Whether the schedule depends on the length of the run.
bool depends_on_length(const ScheduleOptions& options);

/// The number of warm-up steps. Throws Error for a warm-up that leaves no step for the schedule after it, and
/// for a warm-up before one-cycle, which has its own.
std::int64_t warmup_steps(const ScheduleOptions& options, std::int64_t batch_size, const RunLength& length);

/// The learning rate for the run's batch, which has at most the samples of an epoch: `learning_rate` scaled
/// by `options.lr_scaling`. Throws Error if it is not finite.
double scaled_rate(const ScheduleOptions& options, double learning_rate, std::int64_t batch_size,
                   const RunLength& length);

/// The learning rate as a function of the step, from 0: warm-up, then the schedule over the remaining steps.
/// Scales `learning_rate` to the batch. Throws Error as scaled_rate() and warmup_steps() do.
Schedule make_schedule(const ScheduleOptions& options, double learning_rate, std::int64_t batch_size,
                       const RunLength& length);

/// The schedule as a table of at most 17 steps and a chart.
std::string schedule_text(const ScheduleOptions& options, const Schedule& schedule, std::int64_t batch_size,
                          const RunLength& length);

}  // namespace ringtape
