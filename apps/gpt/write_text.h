#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/sampling.h"
#include "text/tokenizer.h"

namespace ringtape::gpt {

/// Passes a prompt, given as tokens, and its continuation to `write`, piece by piece. Stops when the
/// continuation contains `stop`, unless that is empty, and at the tokenizer's end-of-text token.
void write_text(GPT& model, const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                const GenerationOptions& options, const std::string& stop,
                const std::function<void(const std::string& piece)>& write);
/// The same to standard output, with a newline at the end.
void print_text(GPT& model, const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                const GenerationOptions& options, const std::string& stop = "");

}  // namespace ringtape::gpt
