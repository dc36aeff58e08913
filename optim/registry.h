#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nn/arena.h"
#include "optim/optimizer.h"
#include "optim/parameter_group.h"

/// The optimizers by name. A new optimizer is its kernels, its class and a row in registry.cpp, where
/// programs, the planner, `lens`, bench_kernels and the tests find it.
namespace ringtape {

/// The settings of all optimizers. An optimizer ignores those for which has_setting() is false.
struct OptimizerSettings {
  double learning_rate = 1e-3;
  double weight_decay = 0;
  double momentum = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
};

/// One row of the registry.
struct OptimizerKind {
  std::string name;            ///< the value of --optimizer
  std::string description;     ///< short, for help texts
  OptimizerSettings defaults;  ///< defaults of the programs, which differ from the class's
  /// Its settings other than the learning rate and the weight decay, which all optimizers have.
  std::vector<double OptimizerSettings::*> settings;
  /// f32 values of optimizer state for each element of the parameters.
  std::int64_t (*state_per_parameter)(const OptimizerSettings& settings);
  /// Throws Error for invalid settings, as the class does.
  std::unique_ptr<Optimizer> (*make)(ParameterArena& arena, const OptimizerSettings& settings,
                                     const std::vector<ParameterGroup>& groups);
};

/// All optimizers, in the order in which help texts list them.
const std::vector<OptimizerKind>& optimizers();

/// The optimizer of that name. Throws Error that lists the names if there is none.
const OptimizerKind& optimizer_named(const std::string& name);

/// The names, for the help and the check of a flag: {"sgd", "adam", ...}.
std::vector<std::string> optimizer_names();

/// Whether the optimizer has this setting, and the names of the optimizers that have it.
bool has_setting(const OptimizerKind& kind, double OptimizerSettings::*setting);
std::vector<std::string> optimizers_with(double OptimizerSettings::*setting);

/// The defaults of one setting for a help text: "sgd: 0.05; adam, adamw: 0.001; lamb: 0.01; lars: 10".
/// Optimizers without the setting are omitted.
std::string optimizer_defaults(double OptimizerSettings::*setting);

}  // namespace ringtape
