#include <algorithm>

#include "core/error.h"
#include "core/quote.h"
#include "train/option_list.h"

namespace ringtape {
namespace {

/// Whether the option's value differs from its default.
bool is_set(const std::vector<TrainerOption>& options, const std::vector<TrainerOption>& defaults,
            const std::string& name) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].name == name) return options[i].value.write() != defaults[i].value.write();
  }
  fail("no option is called {}", quote(name));
}

}  // namespace

void check_options(const TrainerOptions& given) {
  check(given.optimizer.kind != nullptr, "optimizer: found no name, expected one of {}",
        list_of(optimizer_names()));
  TrainerOptions copy = given, initial;
  const std::vector<TrainerOption> options = options_of(copy), defaults = options_of(initial);
  for (const TrainerOption& option : options) {
    const std::string text = option.value.write();
    if (text.empty()) continue;
    try {
      option.value.read(text);
    } catch (const Error& error) {
      fail("--{}: {}", option.name, error.what());
    }
  }
  for (const TrainerOption& option : options) {
    if (!is_set(options, defaults, option.name)) continue;
    const std::string value = option.value.type.empty() ? "" : " " + option.value.write();
    check(option.needs.text.empty() || option.needs.is_met(), "--{}{} has no effect: expected {} with it",
          option.name, value, option.needs.text);
    for (const std::string& other : option.excludes) {
      if (is_set(options, defaults, other)) fail("--{} cannot be used with --{}", option.name, other);
    }
  }
}

void reset_without_effect(TrainerOptions& options,
                          const std::function<bool(const std::string& name)>& is_given) {
  TrainerOptions initial;
  const std::vector<TrainerOption> defaults = options_of(initial);
  std::size_t i = 0;
  for (const TrainerOption& option : options_of(options)) {
    const std::string text = defaults[i++].value.write();
    if (option.needs.text.empty() || option.needs.is_met() || is_given(option.name)) continue;
    if (option.value.write() == text) continue;
    if (!text.empty()) option.value.read(text);
    if (text.empty() && option.value.clear) option.value.clear();
  }
}

std::vector<std::pair<std::string, std::string>> values_of(const TrainerOptions& options,
                                                           const std::vector<Effect>& effects) {
  TrainerOptions copy = options;
  std::vector<std::pair<std::string, std::string>> values;
  for (const TrainerOption& option : options_of(copy)) {
    if (std::find(effects.begin(), effects.end(), option.effect) == effects.end()) continue;
    values.emplace_back(option.name, option.value.write());
  }
  return values;
}

}  // namespace ringtape
