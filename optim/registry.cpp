#include "optim/registry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/sgd.h"

namespace ringtape {
namespace {

using Settings = OptimizerSettings;
using Groups = std::vector<ParameterGroup>;
using Made = std::unique_ptr<Optimizer>;

std::vector<double Settings::*> betas() {
  return {&Settings::beta1, &Settings::beta2};
}

template <class Options>
Options adam_options(const Settings& s) {
  return {
      .learning_rate = s.learning_rate, .beta1 = s.beta1, .beta2 = s.beta2, .weight_decay = s.weight_decay};
}

std::int64_t two(const Settings&) {
  return 2;
}

}  // namespace

const std::vector<OptimizerKind>& optimizers() {
  static const std::vector<OptimizerKind> all = {
      {.name = "sgd",
       .description = "stochastic gradient descent with momentum",
       .defaults = {.learning_rate = 0.05, .momentum = 0.9},
       .settings = {&Settings::momentum},
       .state_per_parameter = [](const Settings& s) { return std::int64_t{s.momentum > 0 ? 1 : 0}; },
       .make = [](ParameterArena& arena, const Settings& s, const Groups& groups) -> Made {
         return std::make_unique<SGD>(
             arena,
             SGDOptions{
                 .learning_rate = s.learning_rate, .momentum = s.momentum, .weight_decay = s.weight_decay},
             groups);
       }},
      {.name = "adam",
       .description = "Adam, with the weight decay in the gradient",
       .defaults = {.learning_rate = 1e-3},
       .settings = betas(),
       .state_per_parameter = two,
       .make = [](ParameterArena& arena, const Settings& s, const Groups& groups) -> Made {
         return std::make_unique<Adam>(arena, adam_options<AdamOptions>(s), groups);
       }},
      {.name = "adamw",
       .description = "Adam, with the weight decay decoupled from the gradient",
       .defaults = {.learning_rate = 1e-3, .weight_decay = 1e-2},
       .settings = betas(),
       .state_per_parameter = two,
       .make = [](ParameterArena& arena, const Settings& s, const Groups& groups) -> Made {
         return std::make_unique<AdamW>(arena, adam_options<AdamWOptions>(s), groups);
       }},
      {.name = "lamb",
       .description = "AdamW with a trust ratio for each parameter, for large batches",
       .defaults = {.learning_rate = 1e-2, .weight_decay = 1e-2},
       .settings = betas(),
       .state_per_parameter = two,
       .make = [](ParameterArena& arena, const Settings& s, const Groups& groups) -> Made {
         return std::make_unique<Lamb>(arena,
                                       LambOptions{.learning_rate = s.learning_rate,
                                                   .beta1 = s.beta1,
                                                   .beta2 = s.beta2,
                                                   .weight_decay = s.weight_decay},
                                       groups);
       }},
      {.name = "lars",
       .description = "SGD with a local rate for each parameter, for large batches",
       .defaults = {.learning_rate = 10, .momentum = 0.9},
       .settings = {&Settings::momentum},
       .state_per_parameter = [](const Settings&) { return std::int64_t{1}; },
       .make = [](ParameterArena& arena, const Settings& s, const Groups& groups) -> Made {
         return std::make_unique<Lars>(
             arena,
             LarsOptions{
                 .learning_rate = s.learning_rate, .momentum = s.momentum, .weight_decay = s.weight_decay},
             groups);
       }},
  };
  return all;
}

const OptimizerKind& optimizer_named(const std::string& name) {
  const auto found = std::find_if(optimizers().begin(), optimizers().end(),
                                  [&](const OptimizerKind& kind) { return kind.name == name; });
  check(found != optimizers().end(), "no optimizer is named '{}': expected {}", name,
        fmt::join(optimizer_names(), ", "));
  return *found;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerKind& kind : optimizers()) names.push_back(kind.name);
  return names;
}

bool has_setting(const OptimizerKind& kind, double Settings::*setting) {
  return setting == &Settings::learning_rate || setting == &Settings::weight_decay ||
         std::find(kind.settings.begin(), kind.settings.end(), setting) != kind.settings.end();
}

std::vector<std::string> optimizers_with(double Settings::*setting) {
  std::vector<std::string> names;
  for (const OptimizerKind& kind : optimizers()) {
    if (has_setting(kind, setting)) names.push_back(kind.name);
  }
  return names;
}

std::string optimizer_defaults(double Settings::*setting) {
  std::string text;
  const std::vector<std::string> names = optimizers_with(setting);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto default_of = [&](std::size_t which) {
      return optimizer_named(names[which]).defaults.*setting;
    };
    const bool continues = i > 0 && default_of(i - 1) == default_of(i);
    const bool ends = i + 1 == names.size() || default_of(i + 1) != default_of(i);
    text += (text.empty() ? "" : continues ? ", " : "; ") + names[i];
    if (ends) text += fmt::format(": {}", default_of(i));
  }
  return text;
}

}  // namespace ringtape
