#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace ringtape::planner {

/// The commands of `plan`. Each adds its flags to the program's command line, and sets `chosen` to what it
/// does when it is the one that was called.
void add_batch_command(CLI::App& app, std::function<void()>& chosen);
void add_memory_command(CLI::App& app, std::function<void()>& chosen);
void add_fit_command(CLI::App& app, std::function<void()>& chosen);
void add_lr_command(CLI::App& app, std::function<void()>& chosen);
void add_scale_command(CLI::App& app, std::function<void()>& chosen);

}  // namespace ringtape::planner
