#include "optim/parameter_group.h"

#include <fmt/format.h>

#include <string>

#include "core/error.h"
#include "optim/setting.h"

namespace ringtape {
namespace {

/// The group in messages.
std::string owner_of(const ParameterGroup& group) {
  return fmt::format("parameter group '{}'", group.name);
}

void check_group(const ParameterGroup& group) {
  const std::string owner = owner_of(group);
  check(group.contains != nullptr, "{} has no predicate `contains`", owner);
  check_setting(owner, "lr_scale", group.lr_scale);
  if (group.weight_decay) check_setting(owner, "weight decay", *group.weight_decay);
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
      const double lr_scale = static_cast<double>(options[i].lr_scale) * group.lr_scale;
      check_setting(owner_of(group), "lr_scale times that of earlier groups", lr_scale);
      options[i].lr_scale = static_cast<float>(lr_scale);
      if (group.weight_decay) options[i].weight_decay = static_cast<float>(*group.weight_decay);
      if (group.use_trust_ratio) options[i].use_trust_ratio = *group.use_trust_ratio ? 1 : 0;
    }
    check(found, "parameter group '{}' contains none of the {} trainable parameters", group.name,
          entries.size());
  }
  return options;
}

}  // namespace ringtape
