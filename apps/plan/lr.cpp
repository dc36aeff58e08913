#include <memory>

#include "apps/plan/commands.h"
#include "apps/plan/output.h"
#include "planner/learning_rate.h"
#include "planner/numbers.h"
#include "train/option_list.h"
#include "train/option_types.h"

namespace ringtape::planner {
namespace {

struct Options {
  RateRequest request;
  std::string json;
};

void add_flags(CommandLine& app, Options& options) {
  RateRequest& request = options.request;
  ScheduleOptions& schedule = request.schedule;
  schedule.base_batch = 256;
  schedule.lr_scaling = BatchScaling::square_root;
  schedule.warmup = std::nullopt;
  app.group("Change of batch");
  app.option("--lr", between(request.base_rate, 1e-30, 1e30), "learning rate for the base batch").required();
  app.option("--batch-size", between(request.batch_size, 1, kLargestSize),
             "samples in an update of the planned run")
      .required();
  app.option("--dataset", between(request.dataset, 1, kLargestSize), "samples in an epoch").required();
  app.option("--base-batch", between(schedule.base_batch, 1, kLargestSize), "the base batch");
  app.option("--epochs", between(request.epochs, 1e-6, kMostEpochs), "length of the run in epochs");
  app.option(
      "--lr-scaling", option_value(schedule.lr_scaling),
      "none; linear, as for SGD (Goyal et al., 2017); or sqrt, as for Adam and LAMB (You et al., 2020)");

  app.group("Schedule");
  app.option("--schedule", option_value(schedule.kind),
             "constant, linear, cosine, polynomial, step or one-cycle");
  app.option("--final-lr", between(schedule.final_lr, 0, 1),
             "final rate of linear, cosine and polynomial, as a fraction of the rate");
  app.option("--power", between(schedule.power, 0, 1e30), "exponent of polynomial");
  app.option("--step-epochs", between(schedule.step_epochs, 1, kLargestSize),
             "epochs between two decays of step");
  app.option("--gamma", between(schedule.gamma, 0, 1e30), "factor of each decay of step");
  app.option("--warmup", warmup_value(schedule.warmup), "steps of warm-up; auto: a suggested length");
  app.option("--warmup-shape", option_value(schedule.warmup_shape),
             "linear or quadratic increase, or constant at a third of the rate");
  app.group("Output");
  add_json_flag(app, options.json);
}

/// Throws Error for a flag of the schedule that has no effect.
void check_schedule(const ScheduleOptions& schedule) {
  TrainerOptions run;
  const std::int64_t base_batch = run.schedule.base_batch;
  run.schedule = schedule;
  run.schedule.base_batch = base_batch;  // the default here differs from the trainer's
  check_options(run);
}

void plan(const Options& options) {
  check_schedule(options.request.schedule);
  const RatePlan plan = plan_rate(options.request);
  print_plan(rate_text(plan), rate_json(plan), options.json);
}

}  // namespace

void add_lr_command(CommandLine& app) {
  const auto options = std::make_shared<Options>();
  CommandLine& command = app.command(
      "lr",
      "Computes learning rate, warm-up and schedule for another batch, and draws them.\n"
      "Example: plan lr --lr 0.1 --base-batch 256 --batch-size 8192 --dataset 1281167 --epochs 90",
      [options] { plan(*options); });
  add_flags(command, *options);
}

}  // namespace ringtape::planner
