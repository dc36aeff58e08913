#pragma once

#include <cstdint>
#include <optional>

#include "cli/command_line.h"
#include "planner/transformer.h"

namespace ringtape::planner {

/// The flags of a transformer's sizes, which need each other: --layers, --width, --heads, --context,
/// --vocabulary.
struct TransformerFlags {
  std::optional<std::int64_t> layers;  ///< empty where no transformer is given
  Transformer sizes;

  /// Adds them, --context only if it is not there already; returns --layers.
  Flag add(CommandLine& app, bool with_context = true);
  bool are_given() const { return layers.has_value(); }
  Transformer model() const;
};

}  // namespace ringtape::planner
