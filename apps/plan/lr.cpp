#include <memory>

#include "apps/plan/commands.h"
#include "apps/plan/output.h"
#include "planner/learning_rate.h"
#include "planner/numbers.h"
#include "train/option_list.h"

namespace ringtape::planner {
namespace {

struct Options {
  TrainerOptions run;
  double epochs = 3;
  std::int64_t dataset = 0;
  std::string json;
};

/// The trainer's flags of the rate, the batch and the schedule, and those of the run's length.
void add_flags(CommandLine& app, Options& options) {
  for (const TrainerOption& option : options_of(options.run)) {
    const bool is_required = option.name == "lr" || option.name == "batch-size";
    if (!is_required && option.group != kScheduleGroup) continue;
    app.group(option.group);
    Flag flag = app.option("--" + option.name, option.value, option.help);
    if (is_required) flag.required();
  }
  app.group("Length of the run");
  app.option("--dataset", between(options.dataset, 1, kMaxSize), "samples in an epoch").required();
  app.option("--epochs", between(options.epochs, 1e-6, kMaxEpochs), "length of the run in epochs");
  app.group("Output");
  add_json_flag(app, options.json);
}

void plan(const Options& options) {
  const RatePlan plan = plan_rate({.base_rate = *options.run.optimizer.learning_rate,
                                   .batch_size = options.run.data.batch_size,
                                   .epochs = options.epochs,
                                   .schedule = options.run.schedule,
                                   .dataset = options.dataset});
  print_plan(rate_text(plan), rate_json(plan), options.json);
}

}  // namespace

void add_lr_command(CommandLine& app) {
  const auto options = std::make_shared<Options>();
  CommandLine& command = app.command(
      "lr",
      "Computes learning rate, warm-up and schedule for another batch, and draws them. The flags are "
      "those of the training programs, but --epochs may be a fraction.\n"
      "Example: plan lr --lr 0.1 --lr-scaling linear --base-batch 256 --batch-size 8192 --warmup auto "
      "--dataset 1281167 --epochs 90",
      [options] { plan(*options); });
  add_flags(command, *options);
}

}  // namespace ringtape::planner
