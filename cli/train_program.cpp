#include "cli/train_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "core/error.h"
#include "dist/rank_environment.h"
#include "train/console.h"
#include "train/option_list.h"

namespace ringtape {

namespace {

std::string help_of(const TrainerOption& option) {
  if (option.default_text.empty()) return option.help;
  const bool is_tuned = !option.value.write().empty();
  return fmt::format("{} [{}{}]", option.help, is_tuned ? "for other optimizers than the default: " : "",
                     option.default_text);
}

}  // namespace

void check_ranks_can_read(const std::string& flag, const std::string& file) {
  check(file != "-" || detect_rank_environment(process_environment()).world_size == 1,
        "{} -: standard input reaches only one rank, expected a file that all ranks can read", flag);
}

TrainProgram::TrainProgram(const std::string& description, TrainerOptions defaults,
                           std::vector<Recipe> recipes)
    : options_(std::move(defaults)),
      recipes_(std::move(recipes)),
      owned_(std::make_unique<CommandLine>(description)),
      flags_(*owned_) {
  add_flags();
}

TrainProgram::TrainProgram(CommandLine& command, TrainerOptions defaults, std::vector<Recipe> recipes)
    : options_(std::move(defaults)), recipes_(std::move(recipes)), flags_(command) {
  add_flags();
}

void TrainProgram::add_flags() {
  for (TrainerOption& option : options_of(options_)) {
    flags_.group(option.group);
    flags_.option("--" + option.name, option.value, help_of(option));
  }
  flags_.group(kTrainingGroup);
  Flag eval_only = flags_.option("--eval-only", eval_only_, "only evaluate the weights given with --load");
  eval_only.needs(flags_["--load"]).excludes(flags_["--graph"]);
  add_recipes();
  flags_.group(kScheduleGroup);
  Flag print_schedule = flags_.option("--print-schedule", print_schedule_,
                                      "print and draw the learning rate of this run, and do not train");
  flags_.group(kRankGroup);
  Flag show_launcher =
      flags_.option("--show-launcher", show_launcher_,
                    "print the launcher and the rank that were detected, and why, and do not train");
  Flag show_mesh = flags_.option(
      "--show-mesh", show_mesh_,
      "print the coordinates of each rank among the ranks that divide the batch and the model, and "
      "do not train");
  Flag show_pipeline =
      flags_.option("--show-pipeline", show_pipeline_,
                    "draw when each stage of --pipeline-parallel computes each micro-batch, and do not "
                    "train");
  show_pipeline.needs(flags_["--pipeline-parallel"]);
  std::vector<Flag> modes = {eval_only, print_schedule, show_launcher, show_mesh, show_pipeline};
  for (std::size_t i = 0; i < modes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) modes[i].excludes(modes[j]);
  }
  // These modes do not write the outputs of training.
  for (const TrainerOption& option : options_of(options_)) {
    if (option.effect != Effect::output || option.name == "load" || option.name == "quiet") continue;
    const Flag flag = flags_["--" + option.name];
    print_schedule.excludes(flag);
    show_launcher.excludes(flag);
    show_mesh.excludes(flag);
    show_pipeline.excludes(flag);
    if (option.name != "metrics") eval_only.excludes(flag);
  }
  flags_.after_parsing([this] {
    if (eval_only_) check_only_evaluates();  // before a recipe sets flags that the user has not given
    if (!recipe_.empty()) apply_recipe();
    if (flags_["--warmup"].is_given()) options_.schedule.shorten_warmup = false;
    reset_tuned_settings();
    reset_without_effect(options_,
                         [this](const std::string& name) { return flags_["--" + name].is_given(); });
    check_options(options_);
  });
}

void TrainProgram::check_only_evaluates() {
  const std::vector<std::string> of_training = {kTrainingGroup, kOptimizerGroup, kClippingGroup,
                                                kScheduleGroup};
  for (const TrainerOption& option : options_of(options_)) {
    const bool trains = std::find(of_training.begin(), of_training.end(), option.group) != of_training.end();
    if (!trains || option.name == "eval-batch-size") continue;
    check(!flags_["--" + option.name].is_given(), "--{} has no effect with --eval-only", option.name);
  }
}

void TrainProgram::add_recipes() {
  if (recipes_.empty()) return;
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes_) names.push_back(recipe.name);
  flags_.option("--recipe", word(recipe_, names),
                "a set of flags that train well together; flags on the command line override it");
}

/// Sets each flag of the recipe that the command line does not have. Another optimizer than the recipe's is
/// an error, since the other flags are tuned for it.
void TrainProgram::apply_recipe() {
  const auto recipe = std::find_if(recipes_.begin(), recipes_.end(),
                                   [&](const Recipe& candidate) { return candidate.name == recipe_; });
  for (const auto& [flag, value] : recipe->flags) {
    check(flag != "--optimizer" || !flags_[flag].is_given() || options_.optimizer.kind->name == value,
          "--recipe {} is for {}, found --optimizer {}", recipe_, value, options_.optimizer.kind->name);
    if (!flags_[flag].is_given()) flags_.set(flag, value);
  }
}

/// The program's settings are tuned for its default optimizer. With another optimizer, settings that are not
/// given get that optimizer's defaults.
void TrainProgram::reset_tuned_settings() {
  OptimizerOptions& optimizer = options_.optimizer;
  if (optimizer.kind == default_optimizer_) return;
  const auto reset = [this](const char* flag, std::optional<double>& setting) {
    if (!flags_[flag].is_given()) setting.reset();
  };
  reset("--lr", optimizer.learning_rate);
  reset("--momentum", optimizer.momentum);
  reset("--beta1", optimizer.beta1);
  reset("--beta2", optimizer.beta2);
  reset("--weight-decay", optimizer.weight_decay);
}

int TrainProgram::run(int argc, char** argv, const std::function<Task()>& make_task) {
  return flags_.run(argc, argv, [&] { train(make_task); });
}

/// If an output of training could not be written, the program's own outputs are still written.
void TrainProgram::run_training(Trainer& trainer, const std::function<void(Trainer&)>& after_training) {
  std::optional<OutputError> failure;
  try {
    trainer.train();
  } catch (const OutputError& error) {
    failure = error;
  }
  try {
    if (after_training) after_training(trainer);
  } catch (const Error&) {
    if (failure) warn("{}", failure->what());
    throw;
  }
  if (failure) throw OutputError(*failure);
}

void TrainProgram::train(const std::function<Task()>& make_task,
                         const std::function<void(Trainer&)>& before_training,
                         const std::function<void(Trainer&)>& after_training) const {
  std::signal(SIGPIPE, SIG_IGN);  // a reader of --metrics or of the output that has ended costs no weights
  if (show_launcher_) {
    fmt::print("{}", describe(detect_rank_environment(process_environment())));
    return;
  }
  Task task = make_task();
  if (show_pipeline_ && detect_rank_environment(process_environment()).world_size == 1) {
    fmt::print("{}", Trainer::pipeline_text_of_one_rank(std::move(task), options_));
    return;
  }
  // Must be the same on all ranks: a rank that trains would wait for one that does not.
  for (const auto& [flag, is_given] : {std::pair("--eval-only", eval_only_),
                                       {"--print-schedule", print_schedule_},
                                       {"--show-mesh", show_mesh_},
                                       {"--show-pipeline", show_pipeline_}}) {
    task.execution_settings[flag] = fmt::format("{}", is_given);
  }
  Trainer trainer(std::move(task), options_);
  const auto print = [&](const std::string& text) {
    if (trainer.comm().rank() == 0) fmt::print("{}", text);
  };
  if (print_schedule_) {
    print(trainer.schedule_text());
  } else if (show_mesh_) {
    print(trainer.mesh_text());
  } else if (show_pipeline_) {
    print(trainer.pipeline_text());
  } else if (eval_only_) {
    trainer.evaluate();
  } else {
    if (before_training) before_training(trainer);
    run_training(trainer, after_training);
  }
}

}  // namespace ringtape
