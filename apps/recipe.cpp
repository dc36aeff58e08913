#include "apps/recipe.h"

#include <algorithm>

namespace ringtape::apps {

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = {
      {"lamb-8192",
       {{"--optimizer", "lamb"},
        {"--batch-size", "8192"},
        {"--epochs", "15"},
        {"--lr", "0.06"},
        {"--weight-decay", "0"}}},
      {"lamb-16384",
       {{"--optimizer", "lamb"},
        {"--batch-size", "16384"},
        {"--epochs", "15"},
        {"--lr", "0.1"},
        {"--weight-decay", "0"}}},
  };
  return all;
}

void apply_recipe(CLI::App& app, const std::string& name) {
  const auto recipe = std::find_if(recipes().begin(), recipes().end(),
                                   [&](const Recipe& candidate) { return candidate.name == name; });
  for (const auto& [flag, value] : recipe->flags) {
    CLI::Option* const option = app.get_option(flag);
    if (flag == "--optimizer" && option->count() > 0 && option->as<std::string>() != value) {
      throw CLI::ValidationError(
          "--recipe", name + " is for " + value + ", found --optimizer " + option->as<std::string>());
    }
    if (option->count() > 0) continue;
    option->add_result(value);
    option->run_callback();
  }
}

}  // namespace ringtape::apps
