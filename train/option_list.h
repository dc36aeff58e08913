#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/option_value.h"
#include "train/options.h"

namespace ringtape {

/// Headings of groups in --help, for programs with flags of their own in them.
inline constexpr const char* kTrainingGroup = "Training";
inline constexpr const char* kOptimizerGroup = "Optimizer";
inline constexpr const char* kClippingGroup = "Clipping";
inline constexpr const char* kScheduleGroup = "Schedule of the learning rate";
inline constexpr const char* kRankGroup = "Several ranks (mpirun, torchrun, srun)";

/// The text of --batch-size, for programs with a flag of that name and meaning.
inline constexpr const char* kBatchSizeHelp = "samples in an update (the global batch)";

/// The effect of an option's value.
enum class Effect {
  result,     ///< the trained weights: a checkpoint can only be resumed with the same value
  execution,  ///< how and where the same result is computed, and the length of training
  machine,    ///< the device of a rank: may differ between the ranks of a run
  output,     ///< text and files that are read or written
};

/// A condition that must hold for an option to have an effect. The options must outlive it.
struct Need {
  std::string text;  ///< "--schedule polynomial"; empty if there is no condition
  std::function<bool()> is_met;
};

/// One option of a trainer. Flags, --help, the settings in checkpoints, the comparison between ranks and the
/// settings in reports are all made from the list of options, so that none of them can omit an option.
struct TrainerOption {
  std::string name;   ///< "batch-size"; its flag is --batch-size
  std::string group;  ///< its heading in --help
  OptionValue value;
  std::string help;
  Effect effect = Effect::result;
  Need needs{};                         ///< setting the option without it is an error
  std::vector<std::string> excludes{};  ///< names of options that it cannot be used with
  std::string default_text{};           ///< the default for --help, if the value's own text is not enough
};

/// All options. They read and write `options`, which must outlive them.
std::vector<TrainerOption> options_of(TrainerOptions& options);

/// Throws Error that names the option for a value out of range, for options that cannot be used together, and
/// for an option that is set but has no effect.
void check_options(const TrainerOptions& options);

/// Resets each option that has no effect to its initial value, unless `is_given(name)`. For programs whose
/// own defaults may have no effect with the user's optimizer or schedule.
void reset_without_effect(TrainerOptions& options,
                          const std::function<bool(const std::string& name)>& is_given);

/// Names and values of the options with one of these effects, in the order of options_of().
std::vector<std::pair<std::string, std::string>> values_of(const TrainerOptions& options,
                                                           const std::vector<Effect>& effects);

}  // namespace ringtape
