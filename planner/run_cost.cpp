#include "planner/run_cost.h"

#include <cmath>

#include "core/ceil_div.h"
#include "core/error.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

/// Fills in updates and samples.
void measure_length(const RunRequest& run, const BatchPlan& plan, std::optional<std::int64_t> dataset,
                    RunCost& result) {
  check(run.updates.has_value() + run.epochs.has_value() + run.total_tokens.has_value() == 1,
        "how long is the run? Expected one of --max-steps, --epochs and --total-tokens");
  const std::int64_t batch = plan.shape.global_batch();
  if (run.epochs) {
    check(dataset.has_value(), "a run in epochs needs the number of samples in the data");
    result.updates = updates_of(*run.epochs, ceil_div(*dataset, batch));
    result.samples = std::llround(*run.epochs * static_cast<double>(*dataset));
    return;
  }
  if (run.updates) {
    check_size("the number of updates", *run.updates);
    result.updates = *run.updates;
  } else {
    check_size("the number of tokens", *run.total_tokens);
    check(plan.sequence.has_value(), "a run of {} needs the sequence length",
          counted(*run.total_tokens, "token"));
    result.updates = ceil_div(*run.total_tokens, product(batch, *plan.sequence));
  }
  result.samples = product(result.updates, batch);
}

}  // namespace

RunCost cost_of_run(const RunRequest& run, const BatchPlan& plan, std::optional<std::int64_t> dataset) {
  check(run.samples_per_second > 0 && std::isfinite(run.samples_per_second),
        "the throughput must be above 0, found {}", run.samples_per_second);
  check(run.efficiency > 0 && run.efficiency <= 1, "the efficiency must be above 0 and at most 1, found {}",
        run.efficiency);
  check(run.price >= 0 && std::isfinite(run.price), "the price must be at least 0, found {}", run.price);
  RunCost result;
  measure_length(run, plan, dataset, result);
  const auto ranks = static_cast<double>(plan.shape.ranks);
  result.hours =
      static_cast<double>(result.samples) / (run.samples_per_second * ranks * run.efficiency) / 3600;
  check(result.hours <= 1e9, "at this throughput the run takes {:.3g} hours: expected at most 10^9",
        result.hours);
  result.gpu_hours = result.hours * ranks;
  result.cost = result.gpu_hours * run.price;
  return result;
}

}  // namespace ringtape::planner
