#pragma once

#include <string>

#include "nn/sampling.h"
#include "text/tokenizer.h"

namespace ringtape::gpt {

/// Writes a prompt and its continuation to standard output, token by token. Ends where `stop`, unless empty,
/// has appeared in the continuation, and at the tokenizer's end of a text.
void write_text(GPT& model, const Tokenizer& tokenizer, const std::string& prompt,
                const GenerationOptions& options, const std::string& stop);

}  // namespace ringtape::gpt
