#include "apps/planner/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/planner/numbers.h"
#include "core/error.h"

namespace ringtape::planner {

RatePlan plan_rate(const RateRequest& request) {
  constexpr std::int64_t kMostUpdates = 10'000'000;
  const double base = request.base_rate;
  RatePlan plan;
  plan.options = request.options;
  apps::TrainOptions& options = plan.options;
  check(base > 0 && std::isfinite(base), "the base rate must be above 0, found {}", base);
  check_size("the base batch", options.base_batch);
  check_size("the batch", options.batch_size);
  check_size("the number of samples in the data", request.dataset);
  check_size("the number of epochs", options.epochs);
  check(options.batch_size <= request.dataset, "the batch of {} is larger than the data of {} samples",
        options.batch_size, request.dataset);
  plan.linear = scale_rate(BatchScaling::linear, base, options.batch_size, options.base_batch);
  plan.square_root = scale_rate(BatchScaling::square_root, base, options.batch_size, options.base_batch);

  const std::int64_t per_epoch = divide_up(request.dataset, options.batch_size);
  plan.length = {.samples = request.dataset,
                 .updates_per_epoch = per_epoch,
                 .updates = product(per_epoch, options.epochs)};
  check_size("the number of epochs between two drops", options.step_epochs);
  product(options.step_epochs, per_epoch);  // throws where it is too large
  check(plan.length.updates <= kMostUpdates, "the run has {} updates: expected at most {}",
        plan.length.updates, kMostUpdates);
  if (options.schedule == "one-cycle" && options.warmup == "auto") options.warmup = "0";
  plan.warmup = apps::warmup_updates(options, plan.length);
  plan.schedule = apps::make_schedule(options, base, plan.length);
  return plan;
}

namespace {

/// 0.3125 x batch / 512 epochs are 0.3125 / 512 of all samples, whatever the batch.
std::string warmup_text(const RatePlan& plan) {
  const auto batch = plan.options.batch_size;
  const std::int64_t suggested =
      suggested_warmup_steps(plan.length.samples, batch, std::numeric_limits<std::int64_t>::max());
  const double updates = 0.3125 * static_cast<double>(plan.length.samples) / 512;
  const bool whole = static_cast<double>(suggested) == updates;
  std::string text =
      fmt::format("warm-up = 0.3125 x {} / 512 = {:.6g} epochs (You et al., 2020): 0.3125 x {} / 512 = {}{}",
                  grouped(batch), 0.3125 * static_cast<double>(batch) / 512, grouped(plan.length.samples),
                  whole ? "" : fmt::format("{:.6g}, rounded up to ", updates), count(suggested, "update"));
  if (plan.warmup < suggested) {
    text += fmt::format(", capped at {} / 4 = {}", grouped(plan.length.updates), grouped(plan.warmup));
  }
  return text + "\n";
}

}  // namespace

std::string rate_text(const RateRequest& request, const RatePlan& plan) {
  const apps::TrainOptions& options = plan.options;
  const apps::RunLength& length = plan.length;
  const std::string batch = grouped(options.batch_size);
  const double ratio = static_cast<double>(options.batch_size) / static_cast<double>(options.base_batch);
  const auto mark = [&](const char* rule) { return options.lr_scaling == rule ? "  <- taken" : ""; };
  std::string text = fmt::format("batch = {} / {} = {:.6g} times the base batch\n", batch,
                                 grouped(options.base_batch), ratio);
  text += fmt::format("rate, not scaled   = {:.6g}{}\n", request.base_rate, mark("none"));
  text += fmt::format("rate, linear       = {:.6g} x {:.6g} = {:.6g}{}\n", request.base_rate, ratio,
                      plan.linear, mark("linear"));
  text += fmt::format("rate, square root  = {:.6g} x sqrt({:.6g}) = {:.6g}{}\n", request.base_rate, ratio,
                      plan.square_root, mark("sqrt"));
  text += fmt::format("updates = {} / {} rounded up x {} = {} x {} = {}\n", count(length.samples, "sample"),
                      batch, count(options.epochs, "epoch"), grouped(length.updates_per_epoch),
                      grouped(options.epochs), grouped(length.updates));
  if (options.warmup == "auto") {
    text += warmup_text(plan);
  } else if (options.schedule == "one-cycle") {
    text += "warm-up: one-cycle rises by itself\n";
  }
  return text + "\n" + apps::draw_schedule(options, plan.schedule, length);
}

nlohmann::ordered_json rate_json(const RatePlan& plan) {
  const std::int64_t last = plan.length.updates - 1;
  nlohmann::ordered_json json = {{"batch", plan.options.batch_size},
                                 {"base_batch", plan.options.base_batch},
                                 {"linear", plan.linear},
                                 {"square_root", plan.square_root},
                                 {"lr_scaling", plan.options.lr_scaling},
                                 {"schedule", plan.options.schedule},
                                 {"warmup_shape", plan.options.warmup_shape},
                                 {"updates_per_epoch", plan.length.updates_per_epoch},
                                 {"updates", plan.length.updates},
                                 {"warmup_updates", plan.warmup}};
  json["rates"] = nlohmann::ordered_json::array();
  const std::int64_t steps = std::min<std::int64_t>(100, std::max<std::int64_t>(last, 1));
  for (std::int64_t i = 0; i <= std::min(steps, last); ++i) {
    const std::int64_t update = i * last / steps;
    json["rates"].push_back({{"update", update + 1}, {"rate", plan.schedule(update)}});
  }
  return json;
}

}  // namespace ringtape::planner
