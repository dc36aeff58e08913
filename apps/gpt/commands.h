#pragma once

#include "cli/command_line.h"

/// The commands of `gpt`, one file for each.
namespace ringtape::gpt {

void add_train_command(CommandLine& app);
void add_generate_command(CommandLine& app);
void add_evaluate_command(CommandLine& app);
void add_tokenize_command(CommandLine& app);

}  // namespace ringtape::gpt
