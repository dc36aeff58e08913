#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/arena.h"
#include "nn/arena.h"

namespace ringtape {

/// Parameters with their own settings, like torch.optim's parameter groups, but selected by a predicate:
///
///   AdamW optimizer(arena, {.weight_decay = 0.1},
///                   {no_decay_below_two_dimensions(),
///                    {.name = "head",
///                     .contains = [](const ArenaEntry& e) { return e.name.starts_with("head."); },
///                     .lr_scale = 10}});
///
/// A parameter may be in several groups: their scales are multiplied; of the other settings the last group
/// that sets one is used. A parameter in no group has the optimizer's settings.
struct ParameterGroup {
  std::string name;  ///< for errors
  std::function<bool(const ArenaEntry&)> contains;
  double lr_scale = 1;                                 ///< multiplies the learning rate
  std::optional<double> weight_decay = std::nullopt;   ///< overrides the optimizer's
  std::optional<bool> use_trust_ratio = std::nullopt;  ///< LAMB, LARS: scale the step by a ratio of norms
};

/// Parameters that are usually not decayed, biases and the weights and biases of norms: all parameters of
/// fewer than two dimensions.
ParameterGroup no_decay_below_two_dimensions();

/// The options of each entry of the arena, as the optimizer's launches read them. A parameter has a trust
/// ratio if it has two or more dimensions, unless a group says otherwise. Throws Error that names the group
/// if it contains no parameter, has no predicate, or has a scale or a decay that is not finite or is
/// negative.
std::vector<ParameterOptions> options_of_entries(const ParameterArena& arena, double weight_decay,
                                                 const std::vector<ParameterGroup>& groups);

}  // namespace ringtape
