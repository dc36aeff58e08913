// Answers what has to be known before a training run is paid for.
#include "apps/options.h"
#include "apps/planner/commands.h"
#include "core/quote.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Plans a training run by arithmetic that is shown.\n"
      "Example: plan batch --global-batch 1000 --micro-batch 2 --ranks 128\n"
      "plan COMMAND --help lists the flags of a command.");
  std::function<void()> chosen;
  ringtape::planner::add_batch_command(app, chosen);
  ringtape::planner::add_memory_command(app, chosen);
  ringtape::planner::add_fit_command(app, chosen);
  ringtape::planner::add_lr_command(app, chosen);
  ringtape::planner::add_scale_command(app, chosen);
  app.require_subcommand(0, 1);
  app.allow_extras();
  app.callback([&app, &chosen] {
    if (chosen) return;
    const std::vector<std::string> words = app.remaining();
    throw CLI::ValidationError(
        (words.empty() ? "no command" : ringtape::quote(words[0]) + " is not a command") +
        ": expected batch, memory, fit, lr or scale");
  });
  return ringtape::apps::run(app, argc, argv, [&chosen] { chosen(); });
}
