#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/option_value.h"
#include "train/options.h"

namespace ringtape {

/// What another value of an option changes.
enum class Effect {
  result,     ///< what training ends with: a checkpoint can only be resumed with the same value
  execution,  ///< in what pieces and where the same is computed, and how long training goes on
  machine,    ///< where a rank computes: it may differ between the ranks of a run
  output,     ///< what is printed and written
};

/// What an option has no effect without. The options have to outlive it.
struct Need {
  std::string text;  ///< "--schedule polynomial"; empty where nothing is needed
  std::function<bool()> is_met;
};

/// One option of a trainer. Flags, --help, the settings of checkpoints, the comparison of ranks and the
/// settings in reports are all made from the list of these, so that no option can be forgotten in one of
/// them.
struct TrainerOption {
  std::string name;   ///< "batch-size"; its flag is --batch-size
  std::string group;  ///< heading in --help
  OptionValue value;
  std::string help;
  Effect effect = Effect::result;
  Need needs{};                         ///< an option that is set without it is refused
  std::vector<std::string> excludes{};  ///< options that it cannot be used with
  std::string default_text{};           ///< for --help, where the value's own text says too little
};

OptionValue option_value(ScheduleKind& kind);
OptionValue option_value(schedule::Warmup& shape);
OptionValue option_value(BatchScaling& rule);
/// "LATENCY_US,MBYTES_PER_S", or none.
OptionValue option_value(std::optional<SlowLink>& link);

/// Steps, or "auto" for none.
OptionValue warmup_value(std::optional<std::int64_t>& steps);

/// All options, which read and write `options`.
std::vector<TrainerOption> options_of(TrainerOptions& options);

/// Throws Error that names the option for a value out of its range, for values that do not go together, and
/// for an option that has another value than at first but no effect.
void check_options(const TrainerOptions& options);

/// Names and values of the options with one of these effects, in the order of the list.
std::vector<std::pair<std::string, std::string>> values_of(const TrainerOptions& options,
                                                           const std::vector<Effect>& effects);

}  // namespace ringtape
