#pragma once

#include <string>

#include "cli/command_line.h"
#include "io/json.h"

/// The output of the commands of `plan`.
namespace ringtape::planner {

/// Adds --json, whose FILE goes to `file`.
void add_json_flag(CommandLine& app, std::string& file);

/// Prints the text, and writes the JSON to the file if there is one. With "-" for a file only the JSON is
/// printed. Throws Error for a file that cannot be written.
void print_plan(const std::string& text, const Json& json, const std::string& file);

}  // namespace ringtape::planner
