#pragma once

#include <cstdint>
#include <optional>

#include "cli/command_line.h"
#include "nn/transformer.h"

namespace ringtape::planner {

/// The flags of the sizes of a transformer of GPT-2's architecture: --layers, --width, --heads, --context and
/// --vocabulary. Each needs the others.
struct TransformerFlags {
  std::optional<std::int64_t> layers;  ///< empty if no transformer is given
  TransformerOptions sizes;

  /// Adds the flags, --context only with `with_context`; returns --layers.
  Flag add(CommandLine& app, bool with_context = true);
  bool are_given() const { return layers.has_value(); }
  TransformerOptions model() const;
};

}  // namespace ringtape::planner
