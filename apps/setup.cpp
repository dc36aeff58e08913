#include "apps/setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/chart.h"
#include "core/error.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/sgd.h"

namespace ringtape::apps {
namespace {

/// The schedule after the warm-up, over `updates` of them.
Schedule main_schedule(const TrainOptions& options, double rate, std::int64_t updates,
                       std::int64_t updates_per_epoch) {
  const double last = rate * options.final_lr;
  if (options.schedule == "linear") return schedule::linear_decay(rate, updates, last);
  if (options.schedule == "cosine") return schedule::cosine(rate, updates, last);
  if (options.schedule == "polynomial") return schedule::polynomial(rate, updates, options.power, last);
  if (options.schedule == "one-cycle") return schedule::one_cycle(rate, updates);
  if (options.schedule == "step") {
    return schedule::step_decay(rate, options.step_epochs * updates_per_epoch, options.gamma);
  }
  return schedule::constant(rate);
}

schedule::Warmup warmup_kind(const std::string& name) {
  if (name == "quadratic") return schedule::Warmup::quadratic;
  if (name == "constant") return schedule::Warmup::constant;
  return schedule::Warmup::linear;
}

BatchScaling scaling_rule(const std::string& name) {
  if (name == "linear") return BatchScaling::linear;
  if (name == "sqrt") return BatchScaling::square_root;
  return BatchScaling::none;
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const TrainOptions& options, ParameterArena& arena) {
  const std::string& name = options.optimizer;
  const auto decay = [&](double otherwise) { return options.weight_decay.value_or(otherwise); };
  const auto rate = [&](double otherwise) { return options.lr.value_or(otherwise); };
  std::vector<ParameterGroup> groups;
  if (!options.decay_biases) groups.push_back(no_decay_below_two_dimensions());
  if (name == "sgd") {
    return std::make_unique<SGD>(
        arena,
        SGDOptions{.learning_rate = rate(0.05), .momentum = options.momentum, .weight_decay = decay(0)},
        groups);
  }
  if (name == "lars") {
    return std::make_unique<Lars>(
        arena, LarsOptions{.learning_rate = rate(10), .momentum = options.momentum, .weight_decay = decay(0)},
        groups);
  }
  if (name == "lamb") {
    return std::make_unique<Lamb>(
        arena, LambOptions{.learning_rate = rate(1e-2), .weight_decay = decay(1e-2)}, groups);
  }
  if (name == "adamw") {
    return std::make_unique<AdamW>(
        arena, AdamOptions{.learning_rate = rate(1e-3), .weight_decay = decay(1e-2)}, groups);
  }
  return std::make_unique<Adam>(arena, AdamOptions{.learning_rate = rate(1e-3), .weight_decay = decay(0)},
                                groups);
}

BucketSizes bucket_sizes(const TrainOptions& options) {
  const auto bytes = static_cast<std::int64_t>(std::max(1.0, options.bucket_mib * (1 << 20)));
  return {.first_bytes = std::min(bytes, BucketSizes().first_bytes), .bytes = bytes};
}

ArenaSharding make_sharding(const TrainOptions& options, int rank, int ranks) {
  check(options.zero < 2 || !options.no_overlap,
        "--zero 2 has no memory to keep gradients in until backward ends, as --no-overlap asks for");
  return {.stage = ranks > 1 ? options.zero : 0,
          .rank = rank,
          .ranks = ranks,
          .bucket_sizes = bucket_sizes(options)};
}

std::int64_t state_per_parameter(const TrainOptions& options) {
  if (options.optimizer == "lars") return 1;
  if (options.optimizer == "sgd") return options.momentum > 0 ? 1 : 0;
  return 2;
}

std::int64_t warmup_updates(const TrainOptions& options, const RunLength& length) {
  check(options.schedule != "one-cycle" || options.warmup == "0",
        "--schedule one-cycle has a warm-up of its own: --warmup {} cannot be added", options.warmup);
  if (options.warmup == "auto") {
    return suggested_warmup_steps(length.samples, options.batch_size, length.updates);
  }
  const std::int64_t updates = std::stoll(options.warmup);
  check(updates < length.updates,
        "--warmup {} is not shorter than the training: expected less than its {} updates ({} an epoch)",
        updates, length.updates, length.updates_per_epoch);
  return updates;
}

Schedule make_schedule(const TrainOptions& options, double rate, const RunLength& length) {
  const std::int64_t batch = std::min(options.batch_size, length.samples);
  const double scaled = scale_rate(scaling_rule(options.lr_scaling), rate, batch, options.base_batch);
  const std::int64_t warmup = warmup_updates(options, length);
  const Schedule main = main_schedule(options, scaled, length.updates - warmup, length.updates_per_epoch);
  return warmup > 0 ? schedule::warm_up(warmup_kind(options.warmup_shape), warmup, main) : main;
}

std::string draw_schedule(const TrainOptions& options, const Schedule& schedule, const RunLength& length) {
  const std::int64_t warmup = warmup_updates(options, length);
  std::string text =
      fmt::format("{} update{} of {} sample{}, {} an epoch: ", length.updates, length.updates == 1 ? "" : "s",
                  options.batch_size, options.batch_size == 1 ? "" : "s", length.updates_per_epoch);
  if (warmup > 0) text += fmt::format("{} of {} warm-up, then ", warmup, options.warmup_shape);
  text += options.schedule + "\n\n   update   epoch   learning rate\n";
  constexpr std::int64_t kRows = 16;
  std::int64_t last = -1;
  for (std::int64_t row = 0; row <= kRows; ++row) {
    const std::int64_t update = row * (length.updates - 1) / kRows;
    if (update == last) continue;
    last = update;
    text += fmt::format("{:>9}  {:>6.2f}   {:.6g}\n", update + 1,
                        static_cast<double>(update) / static_cast<double>(length.updates_per_epoch),
                        schedule(update));
  }
  // The chart has 72 columns: a few rates for each will do, however long the run.
  const std::int64_t points = std::min<std::int64_t>(length.updates, 72 * 16);
  std::vector<double> rates;
  for (std::int64_t i = 0; i < points; ++i) rates.push_back(schedule(i * length.updates / points));
  return text + "\n" + line_chart(rates, 72, 12, Axis::linear);
}

std::vector<NamedTensor> weights_of(Module& model) {
  std::vector<NamedTensor> weights;
  for (const NamedParameter& parameter : model.named_parameters()) {
    weights.push_back({parameter.name, *parameter.tensor});
  }
  return weights;
}

}  // namespace ringtape::apps
