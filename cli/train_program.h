#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "train/options.h"
#include "train/task.h"
#include "train/trainer.h"

namespace ringtape {

/// A named set of flags, such as "--lr", with values that were found to train well together.
struct Recipe {
  std::string name;
  std::vector<std::pair<std::string, std::string>> flags;
};

/// Throws Error that names `flag` if its file is "-" and the run has several ranks: standard input reaches
/// only one of them.
void check_ranks_can_read(const std::string& flag, const std::string& file);

/// The command line of a training program: a flag for each option of the trainer, and --eval-only, --recipe
/// (if there are recipes), --print-schedule, --show-launcher, --show-mesh and --show-pipeline. The program
/// adds its own flags and makes the task.
class TrainProgram {
 public:
  /// `defaults` are the initial options of this program.
  TrainProgram(const std::string& description, TrainerOptions defaults = {},
               std::vector<Recipe> recipes = {});
  /// The same for one command of a program with several commands (CommandLine::command). `command` must
  /// outlive this object.
  TrainProgram(CommandLine& command, TrainerOptions defaults = {}, std::vector<Recipe> recipes = {});

  CommandLine& flags() { return flags_; }
  const TrainerOptions& options() const { return options_; }

  /// Parses the command line and trains the task that `make_task` returns. Returns the exit code.
  int run(int argc, char** argv, const std::function<Task()>& make_task);
  /// Trains the task that `make_task` returns, or does what a flag such as --eval-only selects instead. The
  /// other functions are called on every rank before and after training, and only if the program trains.
  void train(const std::function<Task()>& make_task,
             const std::function<void(Trainer&)>& before_training = nullptr,
             const std::function<void(Trainer&)>& after_training = nullptr) const;

 private:
  void add_flags();
  void add_recipes();
  void apply_recipe();
  void reset_tuned_settings();
  void check_only_evaluates();
  static void run_training(Trainer& trainer, const std::function<void(Trainer&)>& after_training);

  TrainerOptions options_;
  const OptimizerKind* default_optimizer_ = options_.optimizer.kind;
  std::vector<Recipe> recipes_;
  std::string recipe_;
  bool eval_only_ = false;
  bool print_schedule_ = false;
  bool show_launcher_ = false;
  bool show_mesh_ = false;
  bool show_pipeline_ = false;
  std::unique_ptr<CommandLine> owned_;
  CommandLine& flags_;
};

}  // namespace ringtape
