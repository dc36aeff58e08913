#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nn/module.h"

/// Fine-tuning a part of a model. A frozen parameter has no gradient, optimizer state or weight decay, and
/// lies in no bucket of an all-reduce (nn/arena.h).
namespace ringtape {

/// Whether `name` matches `pattern`, in which * stands for any text, dots included: "h.*.attn.*".
bool matches_pattern(std::string_view pattern, std::string_view name);

/// Freezes the parameters whose name matches one of the patterns. To be called before the parameter arena is
/// made. Throws Error for a pattern that matches no parameter, with names that are near to it, and where no
/// parameter is left to train; then nothing is changed.
void freeze(Module& model, const std::vector<std::string>& patterns);
/// Freezes all parameters that match no pattern; frozen ones that match stay frozen. Throws Error likewise.
void train_only(Module& model, const std::vector<std::string>& patterns);

/// Throws Error unless each pattern matches one of the names; `what` is their kind, such as "parameter".
void check_patterns(const char* what, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names);
/// Whether the name matches one of the patterns.
bool matches_one_of(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace ringtape
