#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

namespace ringtape::apps {

/// Flags that were found to train well together, under one name.
struct Recipe {
  std::string name;
  std::vector<std::pair<std::string, std::string>> flags;  ///< such as {"--lr", "0.01"}
};

/// The recipes that --recipe knows: large batches for MNIST's 784-256-10 in 15 epochs, with the rates
/// that scripts/batch_table.py found (docs/large-batch.md has its table).
const std::vector<Recipe>& recipes();

/// Gives each flag of the recipe its value, unless the command line has that flag. The optimizer cannot be
/// another one, since the other flags suit it: throws CLI::ParseError then.
void apply_recipe(CLI::App& app, const std::string& name);

}  // namespace ringtape::apps
