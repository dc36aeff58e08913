// Plans a training run, and shows the arithmetic.
#include "apps/plan/commands.h"

int main(int argc, char** argv) {
  ringtape::CommandLine app(
      "Plans a training run, and shows the arithmetic.\n"
      "Example: plan batch --batch-size 1000 --micro-batch 2 --ranks 128\n"
      "plan COMMAND --help lists the flags of a command.");
  ringtape::planner::add_batch_command(app);
  ringtape::planner::add_memory_command(app);
  ringtape::planner::add_fit_command(app);
  ringtape::planner::add_lr_command(app);
  ringtape::planner::add_scale_command(app);
  ringtape::planner::add_parallel_command(app);
  return app.run(argc, argv);
}
