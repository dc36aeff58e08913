#pragma once

#include <cstdint>
#include <string>

#include "optim/schedule.h"
#include "train/options.h"

/// The learning rate of a run, from its options.
namespace ringtape {

/// The length of a run.
struct RunLength {
  std::int64_t samples = 0;          ///< in an epoch
  std::int64_t steps_per_epoch = 0;  ///< the last one of an epoch may be short
  std::int64_t steps = 0;            ///< in total
};

/// The length of a run over this number of samples.
RunLength run_length(const DataOptions& options, std::int64_t samples);

/// Whether the schedule depends on the length of the run.
bool depends_on_length(const ScheduleOptions& options);

/// The number of warm-up steps. Throws Error for a warm-up that leaves no step for the schedule after it.
std::int64_t warmup_steps(const ScheduleOptions& options, std::int64_t batch_size, const RunLength& length);

/// The learning rate of every step: warm-up, then the schedule over the remaining steps. Scales
/// `learning_rate` to the batch if the options have a scaling.
Schedule make_schedule(const ScheduleOptions& options, double learning_rate, std::int64_t batch_size,
                       const RunLength& length);

/// The schedule as a table and a chart.
std::string schedule_text(const ScheduleOptions& options, const Schedule& schedule, std::int64_t batch_size,
                          const RunLength& length);

}  // namespace ringtape
