#include <algorithm>

#include "core/error.h"
#include "core/quote.h"
#include "train/option_list.h"

namespace ringtape {
namespace {

/// "--zero 1", "--graph"
std::string text_of(const TrainerOption& option) {
  return fmt::format("--{}{}", option.name, option.value.type.empty() ? "" : " " + option.value.write());
}

/// The option, if its value differs from its default; else null.
const TrainerOption* set_option(const std::vector<TrainerOption>& options,
                                const std::vector<TrainerOption>& defaults, const std::string& name) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].name != name) continue;
    return options[i].value.write() != defaults[i].value.write() ? &options[i] : nullptr;
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
    // An option without a value, or an optimizer of the program's own.
    if (text.empty() && (option.value.words.empty() || option.name == "optimizer")) continue;
    try {
      option.value.read(text);
    } catch (const Error& error) {
      fail("--{}: {}", option.name, error.what());
    }
  }
  for (const TrainerOption& option : options) {
    if (set_option(options, defaults, option.name) == nullptr) continue;
    check(option.needs.text.empty() || option.needs.is_met(), "{} has no effect: expected {} with it",
          text_of(option), option.needs.text);
    for (const std::string& name : option.excludes) {
      const TrainerOption* const other = set_option(options, defaults, name);
      check(other == nullptr, "--{} cannot be used with --{}: found {} and {}, expected one of them",
            option.name, name, text_of(option), other == nullptr ? "" : text_of(*other));
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
