#include "planner/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ceil_div.h"
#include "core/error.h"
#include "planner/numbers.h"
#include "train/option_list.h"
#include "train/option_types.h"

namespace ringtape::planner {

RatePlan plan_rate(const RateRequest& request) {
  constexpr std::int64_t kMaxSteps = 10'000'000;
  const double base = request.base_rate;
  const std::int64_t base_batch = request.schedule.base_batch;
  RatePlan plan;
  plan.request = request;
  const ScheduleOptions& schedule = request.schedule;
  TrainerOptions run;
  run.schedule = schedule;
  run.optimizer.learning_rate = base;
  check_options(run);
  check_size("the batch", request.batch_size);
  check_size("the number of samples in the data", request.dataset);
  check(request.batch_size <= request.dataset, "the batch of {} is larger than the data of {}",
        request.batch_size, counted(request.dataset, "sample"));
  plan.linear = scale_rate(BatchScaling::linear, base, request.batch_size, base_batch);
  plan.square_root = scale_rate(BatchScaling::square_root, base, request.batch_size, base_batch);

  const std::int64_t per_epoch = ceil_div(request.dataset, request.batch_size);
  plan.length = {.samples = request.dataset,
                 .steps_per_epoch = per_epoch,
                 .steps = updates_of(request.epochs, per_epoch)};
  product(schedule.step_epochs, per_epoch);  // throws where it is too large
  check(plan.length.steps <= kMaxSteps, "the run has {} steps: expected at most {}", plan.length.steps,
        kMaxSteps);
  plan.warmup = warmup_steps(schedule, request.batch_size, plan.length);
  plan.schedule = make_schedule(schedule, base, request.batch_size, plan.length);
  return plan;
}

namespace {

std::string epochs_text(double epochs) {
  const auto whole = static_cast<std::int64_t>(epochs);
  return static_cast<double>(whole) == epochs ? grouped(whole, "epoch") : fmt::format("{} epochs", epochs);
}

/// "157 x 90 = 14,130", and "157 x 2.5 = 392.5, rounded up to 393"
std::string steps_text(double epochs, const RunLength& length) {
  const double all = epochs * static_cast<double>(length.steps_per_epoch);
  const std::string product = fmt::format("{} x {} =", grouped(length.steps_per_epoch), epochs);
  const auto steps = static_cast<double>(length.steps);
  if (std::abs(all - steps) < 1e-9 * steps) return fmt::format("{} {}", product, grouped(length.steps));
  return fmt::format("{} {:.6g}, rounded up to {}", product, all, grouped(length.steps));
}

/// 0.3125 x batch / 512 epochs are 0.3125 / 512 of all samples, whatever the batch.
std::string warmup_text(const RatePlan& plan) {
  const auto batch = plan.request.batch_size;
  const std::int64_t suggested =
      suggested_warmup_steps(plan.length.samples, batch, std::numeric_limits<std::int64_t>::max());
  const double updates = 0.3125 * static_cast<double>(plan.length.samples) / 512;
  const bool whole = static_cast<double>(suggested) == updates;
  std::string text =
      fmt::format("warm-up = 0.3125 x {} / 512 = {:.6g} epochs (You et al., 2020): 0.3125 x {} / 512 = {}{}",
                  grouped(batch), 0.3125 * static_cast<double>(batch) / 512, grouped(plan.length.samples),
                  whole ? "" : fmt::format("{:.6g}, rounded up to ", updates), grouped(suggested, "step"));
  if (plan.warmup < suggested) {
    text += fmt::format(", capped at {} / 4 = {}", grouped(plan.length.steps), grouped(plan.warmup));
  }
  return text + "\n";
}

}  // namespace

std::string rate_text(const RatePlan& plan) {
  const RateRequest& request = plan.request;
  const ScheduleOptions& schedule = request.schedule;
  const RunLength& length = plan.length;
  const std::string batch = grouped(request.batch_size);
  const double ratio = static_cast<double>(request.batch_size) / static_cast<double>(schedule.base_batch);
  const auto mark = [&](BatchScaling rule) { return schedule.lr_scaling == rule ? "  <- taken" : ""; };
  std::string text;
  if (schedule.lr_scaling != BatchScaling::none) {
    text = fmt::format("batch = {} / {} = {:.6g} times the base batch\n", batch, grouped(schedule.base_batch),
                       ratio);
    text += fmt::format("rate, not scaled   = {:.6g}\n", request.base_rate);
    text += fmt::format("rate, linear       = {:.6g} x {:.6g} = {:.6g}{}\n", request.base_rate, ratio,
                        plan.linear, mark(BatchScaling::linear));
    text += fmt::format("rate, square root  = {:.6g} x sqrt({:.6g}) = {:.6g}{}\n", request.base_rate, ratio,
                        plan.square_root, mark(BatchScaling::square_root));
  }
  text += fmt::format("steps = {} / {} rounded up x {} = {}\n", grouped(length.samples, "sample"), batch,
                      epochs_text(request.epochs), steps_text(request.epochs, length));
  if (!schedule.warmup) {
    text += warmup_text(plan);
  } else if (schedule.kind == ScheduleKind::one_cycle) {
    text += "warm-up: one-cycle rises by itself\n";
  }
  return text + "\n" + schedule_text(schedule, plan.schedule, request.batch_size, length);
}

Json rate_json(const RatePlan& plan) {
  ScheduleOptions schedule = plan.request.schedule;
  const std::int64_t last = plan.length.steps - 1;
  Json json = {{"batch", plan.request.batch_size},
               {"lr_scaling", option_value(schedule.lr_scaling).write()},
               {"schedule", option_value(schedule.kind).write()},
               {"warmup_shape", option_value(schedule.warmup_shape).write()},
               {"steps_per_epoch", plan.length.steps_per_epoch},
               {"steps", plan.length.steps},
               {"warmup_steps", plan.warmup}};
  if (schedule.lr_scaling != BatchScaling::none) {
    json["base_batch"] = schedule.base_batch;
    json["linear"] = plan.linear;
    json["square_root"] = plan.square_root;
  }
  json["rates"] = Json::Array{};
  const std::int64_t points = std::min<std::int64_t>(100, std::max<std::int64_t>(last, 1));
  for (std::int64_t i = 0; i <= std::min(points, last); ++i) {
    const std::int64_t step = i * last / points;
    json["rates"].push_back(Json{{"step", step + 1}, {"rate", plan.schedule(step)}});
  }
  return json;
}

}  // namespace ringtape::planner
