#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "text/bpe_tokenizer.h"

namespace ringtape {

/// GPT-2's tokenizer, of 50,257 tokens: with the merges that are part of the program, or with a file's merges
/// (see read_bpe_merges()). Programs that use this header link ringtape::ringtape_gpt.
std::shared_ptr<const BpeTokenizer> gpt2_tokenizer(
    const std::optional<std::filesystem::path>& merges = std::nullopt);

}  // namespace ringtape
