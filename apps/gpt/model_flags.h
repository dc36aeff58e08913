#pragma once

#include "cli/command_line.h"
#include "nn/transformer.h"

namespace ringtape::gpt {

/// The flags of a new model's shape.
struct ModelFlags {
  /// nanoGPT's model for a CPU.
  TransformerOptions options = {.context = 64, .layers = 4, .heads = 4, .width = 128, .bias = false};
  std::string architecture = "gpt2";
  std::int64_t recompute = 0;

  void add(CommandLine& flags);
  /// The options of a new model.
  TransformerOptions shape(std::int64_t vocabulary) const;
  /// The flags that must not be given with a loaded model.
  static constexpr const char* kOfShape[] = {"--architecture", "--layers", "--heads",   "--kv-heads",
                                             "--width",        "--hidden", "--context", "--bias"};
};

}  // namespace ringtape::gpt
