#pragma once

#include <filesystem>

#include "io/json.h"
#include "nn/transformer.h"

/// config.json of `transformers` as the options of a GPT, and the reverse.
namespace ringtape {

/// The models of `transformers` that a GPT with these options is.
bool is_gpt2(const TransformerOptions& options);
bool is_llama(const TransformerOptions& options);

/// The contents of a file. Throws Error that names it.
Json read_json(const std::filesystem::path& path);

/// The contents of config.json; the options must describe a model of GPT-2's or Llama's kind.
Json config_of(const TransformerOptions& options);

}  // namespace ringtape
