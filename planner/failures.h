#pragma once

#include <optional>

namespace ringtape::planner {

/// A run that fails from time to time and resumes from its last checkpoint. Failures are a Poisson process.
/// All times in seconds.
struct FailureModel {
  double mtbf = 0;        ///< M: mean time between failures of the whole run
  double checkpoint = 0;  ///< d: how long training stops to write a checkpoint
  double restart = 0;     ///< R: from a failure until training resumes
};

/// sqrt(2 d M): the seconds of training between two checkpoints that lose the least time, to first order
/// (Young, "A first order approximation to the optimum checkpoint interval", 1974).
double young_interval(const FailureModel& model);

/// sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 18M) - d for d < 2M, else M (Daly, "A higher order estimate of the
/// optimum checkpoint interval for restart dumps", 2006).
double daly_interval(const FailureModel& model);

/// The share of the time spent on training whose results are kept, with a checkpoint after every `interval`
/// seconds of training: interval / (M e^(R/M) (e^((interval + d) / M) - 1)) (Daly, 2006).
double goodput(const FailureModel& model, double interval);

}  // namespace ringtape::planner
