#pragma once

#include <cstdint>
#include <string>

#include "optim/schedule.h"
#include "train/options.h"

/// The learning rate of a run, from its options.
namespace ringtape {

/// How long a run is.
struct RunLength {
  std::int64_t samples = 0;          ///< in an epoch
  std::int64_t steps_per_epoch = 0;  ///< the last one of an epoch may be short
  std::int64_t steps = 0;            ///< in all
};

/// The length of a run over so many samples.
RunLength run_length(const DataOptions& options, std::int64_t samples);

/// Whether the schedule is another one for a run of another length.
bool depends_on_length(const ScheduleOptions& options);

/// Steps before the learning rate has reached its full height. Throws Error for a warm-up that leaves no step
/// for the schedule after it.
std::int64_t warmup_steps(const ScheduleOptions& options, std::int64_t batch_size, const RunLength& length);

/// The learning rate of every step: warm-up, then the schedule over the steps that are left. `learning_rate`
/// is scaled here to the batch, where the options say so.
Schedule make_schedule(const ScheduleOptions& options, double learning_rate, std::int64_t batch_size,
                       const RunLength& length);

/// The schedule as a table and a chart.
std::string schedule_text(const ScheduleOptions& options, const Schedule& schedule, std::int64_t batch_size,
                          const RunLength& length);

}  // namespace ringtape
