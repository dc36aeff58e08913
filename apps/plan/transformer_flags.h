#pragma once

#include <cstdint>
#include <optional>

#include "cli/command_line.h"
#include "planner/transformer.h"

namespace ringtape::planner {

/// The flags of a transformer's sizes: --layers, --width, --heads, --context and --vocabulary. Each needs the
/// others.
struct TransformerFlags {
  std::optional<std::int64_t> layers;  ///< empty if no transformer is given
  Transformer sizes;

  /// Adds the flags, --context only with `with_context`; returns --layers.
  Flag add(CommandLine& app, bool with_context = true);
  bool are_given() const { return layers.has_value(); }
  Transformer model() const;
};

}  // namespace ringtape::planner
