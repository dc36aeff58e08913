#include "nn/parameter_units.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ringtape {
namespace {

/// A parameter's chunk, and whether another stage has it too. If two neighbours differ, they share no bucket.
std::pair<int, bool> place_in(const Stages* stages, const std::string& name) {
  if (stages == nullptr) return {0, false};
  return {stages->chunk_of(name), stages->is_copied(name)};
}

}  // namespace

std::vector<UnitPlace> order_by_units(Module& model, std::span<NamedParameter> parameters,
                                      const Stages* stages) {
  std::vector<Module*> modules = {&model};
  std::map<const Tensor*, std::size_t> unit_of;
  for (Module* const module : model.fsdp_units()) {
    if (std::find(modules.begin(), modules.end(), module) != modules.end()) continue;  // it is called twice
    for (const NamedParameter& parameter : module->named_parameters()) {
      const auto [place, is_first] = unit_of.emplace(parameter.tensor, modules.size());
      if (!is_first) place->second = 0;
    }
    modules.push_back(module);
  }
  // The last module first, and after all modules the parameters that are in none.
  const auto key_of = [&](const NamedParameter& parameter) {
    const auto found = unit_of.find(parameter.tensor);
    const std::size_t unit = found == unit_of.end() ? 0 : found->second;
    return std::pair(modules.size() - unit,
                     unit == 0 ? place_in(stages, parameter.name) : std::pair(0, false));
  };
  std::stable_sort(parameters.begin(), parameters.end(),
                   [&](const NamedParameter& a, const NamedParameter& b) { return key_of(a) < key_of(b); });
  std::vector<UnitPlace> units;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i == 0 || key_of(parameters[i]) != key_of(parameters[i - 1])) {
      const std::size_t unit = modules.size() - key_of(parameters[i]).first;
      const int chunk = place_in(stages, parameters[i].name).first;
      const bool is_of_all = unit == 0;
      Module* const module = is_of_all && stages != nullptr ? &stages->chunk(chunk) : modules[unit];
      units.push_back({.module = module, .entries = 0, .is_of_all = is_of_all, .chunk = chunk});
    }
    ++units.back().entries;
  }
  return units;
}

std::vector<std::size_t> runs_of_stages(std::span<const NamedParameter> parameters, const Stages* stages) {
  std::vector<std::size_t> runs;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool continues =
        i > 0 && place_in(stages, parameters[i].name) == place_in(stages, parameters[i - 1].name);
    if (!continues) runs.push_back(0);
    ++runs.back();
  }
  return runs;
}

}  // namespace ringtape
