#include "planner/fit.h"

#include <algorithm>

#include "core/error.h"
#include "planner/batch_report.h"
#include "planner/numbers.h"

namespace ringtape::planner {

FitResult largest_that_fits(std::int64_t most, const TryMicroBatch& attempt) {
  check_size("the largest micro-batch to try", most);
  FitResult result;
  const auto fits = [&](std::int64_t micro_batch) {
    result.trials.push_back(attempt(micro_batch));
    return result.trials.back().fits;
  };
  std::int64_t too_large = most + 1;
  for (std::int64_t size = 1; size < too_large; size = std::min(2 * size, most)) {
    if (!fits(size)) {
      too_large = size;
    } else {
      result.largest = size;
      if (size == most) return result;
    }
  }
  while (too_large - result.largest > 1) {
    const std::int64_t middle = result.largest + (too_large - result.largest) / 2;
    (fits(middle) ? result.largest : too_large) = middle;
  }
  return result;
}

void check_fits(const FitResult& result, std::int64_t memory) {
  const std::optional<std::int64_t> needed = result.trials.front().bytes;
  check(
      result.largest > 0,
      "not even a micro-batch of 1 fits into {}{}: recomputation (for activations), ZeRO (for gradients and "
      "optimizer state), sharded parameters (ZeRO stage 3), and tensor or pipeline parallelism help",
      bytes_text(memory), needed ? fmt::format(", it takes {}", bytes_text(*needed)) : "");
}

std::string fit_text(const FitResult& result, const BatchPlan& plan) {
  std::string text = fmt::format("{:>13}  {:>12}  {:>12}\n", "micro-batch", "memory", "samples/s");
  for (const FitTrial& trial : result.trials) {
    text += fmt::format("{:>13}  {:>12}  {:>12}{}\n", grouped(trial.micro_batch),
                        trial.bytes ? bytes_text(*trial.bytes) : "-",
                        trial.samples_per_second ? fmt::format("{:.5g}", *trial.samples_per_second) : "-",
                        trial.fits ? "" : "   does not fit");
  }
  if (!result.arithmetic.empty()) text += "\n" + result.arithmetic;
  return text + fmt::format("\nthe largest micro-batch that fits: {}\n\n", grouped(result.largest)) +
         batch_text(plan, std::nullopt);
}

Json fit_json(const FitResult& result, const BatchPlan& plan) {
  Json json = {{"largest_micro_batch", result.largest}};
  json["trials"] = Json::Array{};
  for (const FitTrial& trial : result.trials) {
    Json row = {{"micro_batch", trial.micro_batch}, {"fits", trial.fits}};
    if (trial.bytes) row["bytes"] = *trial.bytes;
    if (trial.samples_per_second) row["samples_per_second"] = *trial.samples_per_second;
    json["trials"].push_back(row);
  }
  json["plan"] = batch_json(plan, std::nullopt);
  return json;
}

}  // namespace ringtape::planner
