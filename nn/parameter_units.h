#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nn/module.h"
#include "nn/stages.h"

namespace ringtape {

/// Neighbouring parameters of an arena of ZeRO stage 3 that are gathered, used and freed together.
struct UnitPlace {
  Module* module;       ///< whose forward needs them
  std::size_t entries;  ///< number of parameters
  bool is_of_all;       ///< they are needed throughout the forward of the model, or of a chunk
  int chunk;            ///< of a pipeline's stage
};

/// Sorts the parameters of `model`, given in reverse order of registration, by units, and returns the units:
/// the modules of Module::fsdp_units(), last first, as backward completes them. Parameters that are in none
/// of these modules, or in several, are the last unit, which belongs to the model's own forward. With
/// `stages` there is such a unit for each chunk, and one more for tied weights, so that both stages that have
/// them shard them alike. A unit has at least one parameter.
std::vector<UnitPlace> order_by_units(Module& model, std::span<NamedParameter> parameters,
                                      const Stages* stages);

/// The lengths of the runs of neighbouring parameters, in the order of an arena, that may share a bucket: the
/// parameters of a chunk are a run, and so is each tied weight. Without stages all parameters are one run.
std::vector<std::size_t> runs_of_stages(std::span<const NamedParameter> parameters, const Stages* stages);

}  // namespace ringtape
