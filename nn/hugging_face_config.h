#pragma once

#include <filesystem>

#include "io/json.h"
#include "nn/transformer.h"

/// Conversion between config.json of `transformers` and the options of a GPT.
namespace ringtape {

/// Whether a GPT with these options is a GPT-2, or a Llama, of `transformers`.
bool is_gpt2(const TransformerOptions& options);
bool is_llama(const TransformerOptions& options);

/// The contents of a JSON file. Throws Error that names the file.
Json read_json(const std::filesystem::path& path);

/// The contents of config.json. The options must be those of a GPT-2 or a Llama.
Json config_of(const TransformerOptions& options);

}  // namespace ringtape
