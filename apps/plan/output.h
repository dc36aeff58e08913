#pragma once

#include <string>

#include "cli/command_line.h"
#include "io/json.h"

/// The output of the commands of `plan`.
namespace ringtape::planner {

/// Throws Error if both flags name the same file.
void check_different(const std::string& flag, const std::string& file, const std::string& other_flag,
                     const std::string& other_file);

/// Adds --json FILE, which sets `file`.
void add_json_flag(CommandLine& app, std::string& file);

/// Prints the text, and writes the JSON to `file` unless that is empty. If `file` is "-", prints only the
/// JSON. Throws Error if the file cannot be written.
void print_plan(const std::string& text, const Json& json, const std::string& file);

}  // namespace ringtape::planner
