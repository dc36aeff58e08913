#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"

namespace ringtape {
namespace {

void check_rate(const char* what, double rate) {
  check(std::isfinite(rate) && rate >= 0, "schedule: {} must be finite and at least 0, found {}", what, rate);
}

void check_steps(const char* what, std::int64_t steps) {
  check(steps > 0, "schedule: {} must be at least 1, found {}", what, steps);
}

void check_defined(const char* what, const Schedule& schedule) {
  check(!schedule.is_empty(), "schedule: {} is empty: expected a function of the step", what);
}

/// From `from` to `to` along a half cosine, as `share` goes from 0 to 1.
double half_cosine(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

double share_of(std::int64_t step, std::int64_t steps) {
  return std::min(1.0, static_cast<double>(step) / static_cast<double>(steps));
}

}  // namespace

double Schedule::operator()(std::int64_t step) const {
  check_defined("the schedule", *this);
  return rate_(step);
}

namespace schedule {

Schedule constant(double rate) {
  check_rate("the rate", rate);
  return [rate](std::int64_t) { return rate; };
}

Schedule step_decay(double rate, std::int64_t step_size, double gamma) {
  check_rate("the rate", rate);
  check_rate("gamma", gamma);
  check_steps("the step size", step_size);
  return [=](std::int64_t step) { return rate * std::pow(gamma, static_cast<double>(step / step_size)); };
}

Schedule cosine(double rate, std::int64_t steps, double end_rate) {
  check_rate("the rate", rate);
  check_rate("the last rate", end_rate);
  check_steps("the number of steps", steps);
  return [=](std::int64_t step) { return half_cosine(rate, end_rate, share_of(step, steps)); };
}

Schedule polynomial(double rate, std::int64_t steps, double power, double end_rate) {
  check_rate("the rate", rate);
  check_rate("the last rate", end_rate);
  check_rate("the power", power);
  check_steps("the number of steps", steps);
  return [=](std::int64_t step) {
    return (rate - end_rate) * std::pow(1 - share_of(step, steps), power) + end_rate;
  };
}

Schedule linear_decay(double rate, std::int64_t steps, double end_rate) {
  return polynomial(rate, steps, 1, end_rate);
}

Schedule one_cycle(double max_rate, std::int64_t steps, double pct_start, double div_factor,
                   double final_div_factor) {
  check_rate("the highest rate", max_rate);
  check_steps("the number of steps", steps);
  check(pct_start >= 0 && pct_start <= 1, "schedule: pct_start must be in [0, 1], found {}", pct_start);
  check(div_factor > 0 && final_div_factor > 0, "schedule: the divisors must be above 0, found {} and {}",
        div_factor, final_div_factor);
  const double first_rate = max_rate / div_factor;
  const double last_rate = first_rate / final_div_factor;
  // As in PyTorch the highest rate is reached at step pct_start * steps - 1, which may lie between two
  // steps.
  const double peak = pct_start * static_cast<double>(steps) - 1;
  const double last = static_cast<double>(steps) - 1;
  return [=](std::int64_t number) {
    const double step = std::min(static_cast<double>(number), last);
    if (step <= peak) return half_cosine(first_rate, max_rate, peak > 0 ? step / peak : 1.0);
    return half_cosine(max_rate, last_rate, (step - peak) / (last - peak));
  };
}

Schedule warm_up(Warmup kind, std::int64_t steps, Schedule main, double constant_factor) {
  check(steps >= 0, "schedule: the warm-up must be at least 0 steps, found {}", steps);
  check_rate("the warm-up's factor", constant_factor);
  check_defined("the schedule after the warm-up", main);
  const double goal = main(0);
  const auto rise = [=](std::int64_t step) {
    const double share = static_cast<double>(step + 1) / static_cast<double>(steps + 1);
    switch (kind) {
      case Warmup::linear:
        return goal * share;
      case Warmup::quadratic:
        return goal * share * share;
      case Warmup::constant:
        return goal * constant_factor;
    }
    return goal;
  };
  return then(rise, steps, std::move(main));
}

Schedule then(Schedule first, std::int64_t steps, Schedule second) {
  check_defined("the first schedule", first);
  check_defined("the second schedule", second);
  check(steps >= 0, "schedule: the first schedule must have at least 0 steps, found {}", steps);
  return [=](std::int64_t step) { return step < steps ? first(step) : second(step - steps); };
}

}  // namespace schedule

double scale_rate(BatchScaling rule, double rate, std::int64_t batch, std::int64_t base_batch) {
  check(batch > 0 && base_batch > 0, "scale_rate: batches must be at least 1, found {} and {}", batch,
        base_batch);
  const double ratio = static_cast<double>(batch) / static_cast<double>(base_batch);
  switch (rule) {
    case BatchScaling::none:
      return rate;
    case BatchScaling::linear:
      return rate * ratio;
    case BatchScaling::square_root:
      return rate * std::sqrt(ratio);
  }
  return rate;
}

std::int64_t suggested_warmup_steps(std::int64_t dataset, std::int64_t batch, std::int64_t total_steps) {
  check(dataset > 0 && batch > 0 && total_steps >= 0,
        "suggested_warmup_steps: expected at least 1 sample, a batch of at least 1 and at least 0 steps, "
        "found {}, {} and {}",
        dataset, batch, total_steps);
  const double epochs = 0.3125 * static_cast<double>(batch) / 512;
  const double steps = epochs * static_cast<double>(dataset) / static_cast<double>(batch);
  return std::min(static_cast<std::int64_t>(std::ceil(steps)), total_steps / 4);
}

}  // namespace ringtape
