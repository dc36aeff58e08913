#pragma once

#include "cli/command_line.h"
#include "nn/transformer.h"

namespace ringtape {

// The texts of the flags of a transformer's sizes, which `gpt` and the commands of `plan` share.
inline constexpr const char* kLayersHelp = "transformer blocks";
inline constexpr const char* kHeadsHelp = "attention heads";
inline constexpr const char* kWidthHelp = "elements of a token's vector (the model dimension)";
inline constexpr const char* kContextHelp = "tokens in a sequence, which is a sample";
inline constexpr const char* kVocabularyHelp = "size of the vocabulary";

/// What --architecture selects.
enum class Architecture { gpt2, llama };
/// "gpt2" or "llama".
const char* name_of(Architecture architecture);

/// The flags of a GPT's shape, except for its vocabulary.
struct ModelFlags {
  /// By default, nanoGPT's character-level model for a CPU.
  TransformerOptions options = {.context = 64, .layers = 4, .heads = 4, .width = 128, .bias = false};
  Architecture architecture = Architecture::gpt2;

  /// Adds the flags in kNames.
  void add(CommandLine& flags);
  /// The options of a model with this vocabulary.
  TransformerOptions shape(std::int64_t vocabulary) const;
  static constexpr const char* kNames[] = {"--architecture", "--layers",          "--heads",   "--kv-heads",
                                           "--width",        "--ffn-hidden-size", "--context", "--bias"};
};

}  // namespace ringtape
