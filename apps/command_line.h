#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>

/// What the command lines of all programs share.
namespace ringtape::apps {

/// Refuses the empty text where a file or folder is to be named.
CLI::Validator file_name_check();

/// Accepts numbers from `low` to `high`. (CLI::Range lets NaN through.)
CLI::Validator number_check(double low, double high);

/// Whole numbers from 1, and from 0.
const auto kPositive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
const auto kNotNegative = CLI::Range(std::int64_t{0}, std::int64_t{1} << 40);

/// Parses the command line, runs `program`, and turns what it throws into one line on standard error. Returns
/// the exit code: 0, 1 for an error, 2 for a wrong flag.
int run(CLI::App& app, int argc, char** argv, const std::function<void()>& program);

}  // namespace ringtape::apps
