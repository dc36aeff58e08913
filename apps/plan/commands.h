#pragma once

#include "cli/command_line.h"

/// The commands of `plan`, one file for each: its flags, and the output of the plan as text or JSON.
namespace ringtape::planner {

void add_batch_command(CommandLine& app);
void add_memory_command(CommandLine& app);
void add_fit_command(CommandLine& app);
void add_lr_command(CommandLine& app);
void add_scale_command(CommandLine& app);
void add_parallel_command(CommandLine& app);

}  // namespace ringtape::planner
