#pragma once

#include "cli/command_line.h"
#include "nn/transformer.h"

namespace ringtape {

/// The flags of a GPT's shape, except for its vocabulary.
struct ModelFlags {
  /// By default, nanoGPT's character-level model for a CPU.
  TransformerOptions options = {.context = 64, .layers = 4, .heads = 4, .width = 128, .bias = false};
  std::string architecture = "gpt2";

  /// Adds the flags in kNames.
  void add(CommandLine& flags);
  /// The options of a model with this vocabulary.
  TransformerOptions shape(std::int64_t vocabulary) const;
  static constexpr const char* kNames[] = {"--architecture", "--layers", "--heads",   "--kv-heads",
                                           "--width",        "--hidden", "--context", "--bias"};
};

}  // namespace ringtape
