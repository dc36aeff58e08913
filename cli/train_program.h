#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "train/options.h"
#include "train/task.h"

namespace ringtape {

/// Named options that were found to train well together: "--lr" and such, with their values.
struct Recipe {
  std::string name;
  std::vector<std::pair<std::string, std::string>> flags;
};

/// The command line of a training program: a flag for each option of the trainer, and --eval-only,
/// --print-schedule and --show-launch. The program adds its own flags, and makes the task.
class TrainProgram {
 public:
  /// `defaults` are the initial options of this program.
  TrainProgram(const std::string& description, TrainerOptions defaults = {},
               std::vector<Recipe> recipes = {});

  CommandLine& flags() { return flags_; }
  const TrainerOptions& options() const { return options_; }

  /// Parses the command line and trains the task that `make_task` returns. Returns the exit code.
  int run(int argc, char** argv, const std::function<Task()>& make_task);

 private:
  void add_recipes();
  void apply_recipe();
  void train(const std::function<Task()>& make_task) const;

  TrainerOptions options_;
  std::vector<Recipe> recipes_;
  std::string recipe_;
  bool eval_only_ = false;
  bool print_schedule_ = false;
  bool show_launch_ = false;
  CommandLine flags_;
};

}  // namespace ringtape
