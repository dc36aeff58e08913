#include "planner/failures.h"

#include <cmath>

namespace ringtape::planner {

double young_interval(const FailureModel& model) {
  return std::sqrt(2 * model.checkpoint * model.mtbf);
}

double daly_interval(const FailureModel& model) {
  const double ratio = model.checkpoint / (2 * model.mtbf);
  if (ratio >= 1) return model.mtbf;
  return young_interval(model) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - model.checkpoint;
}

double goodput(const FailureModel& model, double interval) {
  const double mean = model.mtbf;
  return interval /
         (mean * std::exp(model.restart / mean) * std::expm1((interval + model.checkpoint) / mean));
}

}  // namespace ringtape::planner
