#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nn/module.h"

namespace ringtape {

/// The units of ZeRO stage 3: neighbouring parameters that are gathered, computed with, and freed together.
struct UnitOrder {
  std::vector<Module*> modules;      ///< of each unit: the module whose forward needs it
  std::vector<std::size_t> entries;  ///< of each unit: its number of parameters
};

/// Sorts the parameters of `model`, given in reverse order of registration, by units: those of
/// Module::units(), the last first, as backward completes them. What is in none of them, or in several, is
/// the last unit, that of the model's own forward. A unit has at least one parameter.
UnitOrder order_by_units(Module& model, std::span<NamedParameter> parameters);

}  // namespace ringtape
