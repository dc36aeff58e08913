#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nn/module.h"

/// Fine-tuning part of a model. A frozen parameter has no gradient, no optimizer state and no weight decay,
/// and is in no gradient bucket (nn/arena.h).
namespace ringtape {

/// Whether `name` matches `pattern`, in which * stands for any text, dots included: "h.*.attn.*".
bool matches_pattern(std::string_view pattern, std::string_view name);

/// Freezes the parameters whose names match one of the patterns. Call it before the parameter arena is made.
/// Throws Error for a pattern that matches no parameter, with the most similar names, for one whose
/// parameters are all frozen already, and if no parameter would be left to train; then nothing is changed.
void freeze(Module& model, const std::vector<std::string>& patterns);
/// Freezes all parameters that match no pattern; frozen parameters that match stay frozen. Call it before the
/// parameter arena is made. Throws Error for a pattern that matches no parameter, and if no parameter would
/// be left to train; then nothing is changed.
void train_only(Module& model, const std::vector<std::string>& patterns);

/// Throws Error unless each pattern matches one of the names; `what` is their kind, such as "parameter".
void check_patterns(const char* what, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names);
/// Whether the name matches one of the patterns.
bool matches_one_of(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace ringtape
