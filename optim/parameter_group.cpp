#include "optim/parameter_group.h"

#include <cmath>

#include "core/error.h"

namespace ringtape {
namespace {

void check_group(const ParameterGroup& group) {
  const auto check_setting = [&](const char* what, double value) {
    check(std::isfinite(value) && value >= 0,
          "parameter group '{}': {} must be finite and at least 0, found {}", group.name, what, value);
  };
  check(group.contains != nullptr, "parameter group '{}' has no predicate `contains`", group.name);
  check_setting("lr_scale", group.lr_scale);
  if (group.weight_decay) check_setting("weight decay", *group.weight_decay);
}

}  // namespace

ParameterGroup no_decay_below_two_dimensions() {
  return {.name = "fewer than two dimensions",
          .contains = [](const ArenaEntry& entry) { return entry.tensor->dims() < 2; },
          .weight_decay = 0.0};
}

std::vector<ParameterOptions> options_of_entries(const ParameterArena& arena, double weight_decay,
                                                 const std::vector<ParameterGroup>& groups) {
  const std::vector<ArenaEntry>& entries = arena.entries();
  std::vector<ParameterOptions> options;
  for (const ArenaEntry& entry : entries) {
    options.push_back({.lr_scale = 1,
                       .weight_decay = static_cast<float>(weight_decay),
                       .use_trust_ratio = entry.tensor->dims() >= 2 ? 1 : 0});
  }
  for (const ParameterGroup& group : groups) {
    check_group(group);
    bool found = false;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!group.contains(entries[i])) continue;
      found = true;
      options[i].lr_scale *= static_cast<float>(group.lr_scale);
      if (group.weight_decay) options[i].weight_decay = static_cast<float>(*group.weight_decay);
      if (group.use_trust_ratio) options[i].use_trust_ratio = *group.use_trust_ratio ? 1 : 0;
    }
    check(found, "parameter group '{}' contains none of the {} trainable parameters", group.name,
          entries.size());
  }
  return options;
}

}  // namespace ringtape
