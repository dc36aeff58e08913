#include "nn/parameter_units.h"

#include <algorithm>
#include <map>

namespace ringtape {

UnitOrder order_by_units(Module& model, std::span<NamedParameter> parameters) {
  std::vector<Module*> modules = {&model};
  std::map<const Tensor*, std::size_t> unit_of;
  for (Module* const module : model.units()) {
    if (std::find(modules.begin(), modules.end(), module) != modules.end()) continue;  // it is called twice
    for (const NamedParameter& parameter : module->named_parameters()) {
      const auto [place, is_first] = unit_of.emplace(parameter.tensor, modules.size());
      if (!is_first) place->second = 0;
    }
    modules.push_back(module);
  }
  const auto unit = [&](const NamedParameter& parameter) {
    const auto found = unit_of.find(parameter.tensor);
    return found == unit_of.end() ? std::size_t{0} : found->second;
  };
  std::stable_sort(parameters.begin(), parameters.end(),
                   [&](const NamedParameter& a, const NamedParameter& b) { return unit(a) > unit(b); });
  UnitOrder order;
  for (const NamedParameter& parameter : parameters) {
    Module* const module = modules[unit(parameter)];
    if (order.modules.empty() || order.modules.back() != module) {
      order.modules.push_back(module);
      order.entries.push_back(0);
    }
    ++order.entries.back();
  }
  return order;
}

}  // namespace ringtape
