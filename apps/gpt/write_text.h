#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/sampling.h"
#include "text/tokenizer.h"

namespace ringtape::gpt {

/// Passes a prompt, given as tokens, and its continuation to `write`, token by token. Ends where `stop`,
/// unless empty, has appeared in the continuation, and at the tokenizer's end of a text.
void write_text(GPT& model, const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                const GenerationOptions& options, const std::string& stop,
                const std::function<void(const std::string& piece)>& write);
/// The same to standard output, with a new line at the end.
void print_text(GPT& model, const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                const GenerationOptions& options, const std::string& stop = "");

}  // namespace ringtape::gpt
