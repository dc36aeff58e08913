#include <fmt/format.h>

#include <memory>

#include "apps/planner/commands.h"
#include "apps/planner/learning_rate.h"
#include "apps/planner/numbers.h"

namespace ringtape::planner {
namespace {

struct Options {
  RateRequest request;
  bool json = false;
};

void add_flags(CLI::App& app, Options& options) {
  const auto size = CLI::Range(std::int64_t{1}, kLargestSize);
  apps::TrainOptions& train = options.request.options;
  train.base_batch = 256;
  train.lr_scaling = "sqrt";
  app.option_defaults()->group("Change of batch");
  app.add_option("--base-lr", options.request.base_rate, "learning rate that suits the base batch")
      ->check(CLI::Number)
      ->required();
  app.add_option("--batch", train.batch_size, "samples in an update of the run that is planned")
      ->check(size)
      ->required();
  app.add_option("--dataset", options.request.dataset, "samples in an epoch")->check(size)->required();
  app.option_defaults()->always_capture_default();
  app.add_option("--base-batch", train.base_batch, "the base batch")->check(size);
  app.add_option("--epochs", train.epochs, "epochs of the run")->check(size);
  app.add_option(
         "--lr-scaling", train.lr_scaling,
         "linear, as for SGD (Goyal et al., 2017), sqrt, as for Adam and LAMB (You et al., 2020), or none")
      ->check(CLI::IsMember({"linear", "sqrt", "none"}));

  app.option_defaults()->group("Schedule");
  app.add_option("--schedule", train.schedule, "constant, linear, cosine, polynomial, step or one-cycle")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "polynomial", "step", "one-cycle"}));
  app.add_option("--final-lr", train.final_lr,
                 "where linear, cosine and polynomial end, as a share of the rate")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--power", train.power, "exponent of polynomial")->check(CLI::Number);
  app.add_option("--step-epochs", train.step_epochs, "epochs between two drops of step")->check(size);
  app.add_option("--gamma", train.gamma, "factor of each drop of step")->check(CLI::Number);
  app.add_option("--warmup-shape", train.warmup_shape, "linear or quadratic rise, or constant at a third")
      ->check(CLI::IsMember({"linear", "quadratic", "constant"}));
  app.option_defaults()->always_capture_default(false);
  app.add_option_function<std::int64_t>(
         "--warmup", [&train](std::int64_t updates) { train.warmup = std::to_string(updates); },
         "updates of warm-up [a length that suits the batch]")
      ->check(CLI::Range(std::int64_t{0}, kLargestSize));
  train.warmup = "auto";
  app.option_defaults()->group("Output");
  app.add_flag("--json", options.json, "print the plan as JSON");
}

void plan(const Options& options) {
  const RatePlan plan = plan_rate(options.request);
  fmt::print("{}", options.json ? rate_json(plan).dump(2) + "\n" : rate_text(options.request, plan));
}

}  // namespace

void add_lr_command(CLI::App& app, std::function<void()>& chosen) {
  CLI::App* const command =
      app.add_subcommand("lr",
                         "Works out learning rate, warm-up and schedule for another batch, and draws them.\n"
                         "Example: plan lr --base-lr 0.1 --base-batch 256 --batch 8192 --dataset 1281167 "
                         "--epochs 90 --lr-scaling linear");
  const auto options = std::make_shared<Options>();
  add_flags(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { plan(*options); }; });
}

}  // namespace ringtape::planner
