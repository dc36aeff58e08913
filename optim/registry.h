#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nn/arena.h"
#include "optim/optimizer.h"
#include "optim/parameter_group.h"

/// The optimizers by name. A new optimizer is its kernels, its class and a row in registry.cpp: programs, the
/// planner, `lens`, bench_kernels and the tests find it there and know no optimizer by name.
namespace ringtape {

/// The settings of any optimizer. An optimizer ignores those that are not among OptimizerKind::settings.
struct OptimizerSettings {
  double learning_rate = 1e-3;
  double weight_decay = 0;
  double momentum = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
};

/// One row of the registry.
struct OptimizerKind {
  std::string name;            ///< as --optimizer takes it
  std::string description;     ///< in a few words, for help texts
  OptimizerSettings defaults;  ///< of a training run without settings; not the defaults of the class
  /// The settings that it has besides the learning rate and the weight decay, which all have.
  std::vector<double OptimizerSettings::*> settings;
  /// Values in f32 that it keeps for each element of the parameters.
  std::int64_t (*state_per_parameter)(const OptimizerSettings& settings);
  /// Throws Error for settings that make no sense, as the class does.
  std::unique_ptr<Optimizer> (*make)(ParameterArena& arena, const OptimizerSettings& settings,
                                     const std::vector<ParameterGroup>& groups);
};

/// All optimizers, in the order in which help texts list them.
const std::vector<OptimizerKind>& optimizers();

/// The optimizer of that name. Throws Error that lists the names where there is none.
const OptimizerKind& optimizer_named(const std::string& name);

/// The names, for the help and the check of a flag: {"sgd", "adam", ...}.
std::vector<std::string> optimizer_names();

/// Whether the optimizer has this setting, and the names of the optimizers that have it.
bool has_setting(const OptimizerKind& kind, double OptimizerSettings::*setting);
std::vector<std::string> optimizers_with(double OptimizerSettings::*setting);

/// The defaults of one setting for a help text: "sgd: 0.05; adam, adamw: 0.001; lamb: 0.01; lars: 10".
/// Optimizers that do not have the setting are left out.
std::string optimizer_defaults(double OptimizerSettings::*setting);

}  // namespace ringtape
