#include "train/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/numbers.h"
#include "plot/terminal_chart.h"
#include "train/option_types.h"

namespace ringtape {
namespace {

/// The schedule after the warm-up, over `steps` steps.
Schedule main_schedule(const ScheduleOptions& options, double rate, std::int64_t steps,
                       std::int64_t steps_per_epoch) {
  const double last = rate * options.final_lr_fraction;
  switch (options.kind) {
    case ScheduleKind::constant:
      return schedule::constant(rate);
    case ScheduleKind::linear:
      return schedule::linear_decay(rate, steps, last);
    case ScheduleKind::cosine:
      return schedule::cosine(rate, steps, last);
    case ScheduleKind::polynomial:
      return schedule::polynomial(rate, steps, options.power, last);
    case ScheduleKind::step: {
      // More epochs than the run has could overflow in the product.
      const std::int64_t epochs = steps / std::max<std::int64_t>(steps_per_epoch, 1) + 1;
      return schedule::step_decay(rate, std::min(options.step_epochs, epochs) * steps_per_epoch,
                                  options.gamma);
    }
    case ScheduleKind::one_cycle:
      return schedule::one_cycle(rate, steps);
  }
  fail("schedule {} is unknown", static_cast<int>(options.kind));
}

/// A step times the number of points of a chart must not overflow.
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 50;

}  // namespace

RunLength run_length(const DataOptions& options, std::int64_t samples) {
  const std::int64_t per_epoch = ceil_div(samples, options.batch_size);
  check(options.epochs <= kMaxSteps / std::max<std::int64_t>(per_epoch, 1),
        "--epochs {} of {} steps each: expected at most {} steps in total", options.epochs, per_epoch,
        kMaxSteps);
  const std::int64_t all = options.epochs * per_epoch;
  return {.samples = samples,
          .steps_per_epoch = per_epoch,
          .steps = options.max_steps > 0 ? std::min(all, options.max_steps) : all};
}

bool warmup_follows_length(const ScheduleOptions& options) {
  return !options.warmup.has_value() || options.shorten_warmup;
}

bool depends_on_length(const ScheduleOptions& options) {
  const bool is_fixed = options.kind == ScheduleKind::constant || options.kind == ScheduleKind::step;
  return !is_fixed || warmup_follows_length(options);
}

std::int64_t warmup_steps(const ScheduleOptions& options, std::int64_t batch_size, const RunLength& length) {
  if (options.kind == ScheduleKind::one_cycle && options.shorten_warmup) return 0;
  check(options.kind != ScheduleKind::one_cycle || options.warmup == 0,
        "--schedule one-cycle includes a warm-up: expected no --warmup, found {}",
        options.warmup ? fmt::format("{}", *options.warmup) : "auto");
  if (!options.warmup) return suggested_warmup_steps(length.samples, batch_size, length.steps);
  if (options.shorten_warmup && *options.warmup >= length.steps) return length.steps / 4;
  check(*options.warmup == 0 || *options.warmup < length.steps,
        "--warmup {} is not shorter than the training: expected less than its {} ({} an epoch)",
        *options.warmup, counted(length.steps, "step"), length.steps_per_epoch);
  return *options.warmup;
}

double scaled_rate(const ScheduleOptions& options, double learning_rate, std::int64_t batch_size,
                   const RunLength& length) {
  const std::int64_t batch = std::min(batch_size, length.samples);
  const double scaled = scale_rate(options.lr_scaling, learning_rate, batch, options.base_batch);
  check(scaled <= std::numeric_limits<float>::max(),
        "--lr {} scaled from a batch of {} to {}: expected at most 3.4e38, found {:.3g}", learning_rate,
        options.base_batch, batch, scaled);
  return scaled;
}

Schedule make_schedule(const ScheduleOptions& options, double learning_rate, std::int64_t batch_size,
                       const RunLength& length) {
  const double scaled = scaled_rate(options, learning_rate, batch_size, length);
  const std::int64_t warmup = warmup_steps(options, batch_size, length);
  const Schedule main = main_schedule(options, scaled, length.steps - warmup, length.steps_per_epoch);
  const Schedule schedule = warmup > 0 ? schedule::warm_up(options.warmup_shape, warmup, main) : main;
  // A rate that grows, with a --gamma above 1, is highest in the last step.
  const double last = schedule(length.steps - 1);
  check(last <= std::numeric_limits<float>::max(),
        "the learning rate of the last of {} is {}, expected at most 3.4e38: a smaller --gamma or --lr is "
        "needed",
        counted(length.steps, "step"), last);
  return schedule;
}

std::string schedule_text(const ScheduleOptions& options, const Schedule& schedule, std::int64_t batch_size,
                          const RunLength& length) {
  const std::int64_t warmup = warmup_steps(options, batch_size, length);
  ScheduleOptions named = options;
  std::string text =
      fmt::format("{} of {}, {} an epoch: ", counted(length.steps, "step"),
                  counted(std::min(batch_size, length.samples), "sample"), length.steps_per_epoch);
  if (warmup > 0)
    text += fmt::format("{} of {} warm-up, then ", warmup, option_value(named.warmup_shape).write());
  text += option_value(named.kind).write() + "\n\n     step   epoch   learning rate\n";
  constexpr std::int64_t kRows = 16;
  std::int64_t last = -1;
  for (std::int64_t row = 0; row <= kRows; ++row) {
    const std::int64_t step = row * (length.steps - 1) / kRows;
    if (step == last) continue;
    last = step;
    text +=
        fmt::format("{:>9}  {:>6.2f}   {:.6g}\n", step + 1,
                    static_cast<double>(step) / static_cast<double>(length.steps_per_epoch), schedule(step));
  }
  // A few rates for each column of the chart are enough for a run of any length.
  const std::int64_t points = std::min<std::int64_t>(length.steps, kMaxColumns * 16);
  std::vector<double> rates;
  for (std::int64_t i = 0; i < points; ++i) rates.push_back(schedule(i * length.steps / points));
  return text + "\n" + line_chart(rates, standard_output(), 12, ChartScale::linear);
}

}  // namespace ringtape
