#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/gpt.h"

/// Model folders of Hugging Face's `transformers`: config.json, and the weights in model.safetensors or in
/// shards that model.safetensors.index.json lists. The models are GPT2LMHeadModel and LlamaForCausalLM, whose
/// `from_pretrained` opens the folders that are written here.
namespace ringtape {

/// The options that config.json describes. Throws Error that names the file for another kind of model, a
/// missing member, and settings that this library does not support.
TransformerOptions read_transformer_config(const std::filesystem::path& folder);

/// A GPT with the weights of the folder (f32, bf16 or f16, converted to f32). Names may begin with
/// "transformer.", GPT-2's mask buffers are ignored, and a tied lm_head may be absent. `dropout` replaces all
/// dropout probabilities of config.json. Throws Error that names missing tensors, unexpected tensors, and
/// tensors of another shape.
std::shared_ptr<GPT> load_gpt(const std::filesystem::path& folder,
                              std::optional<double> dropout = std::nullopt);

/// Writes the model's config.json and model.safetensors (f32) to the folder, which is created if necessary,
/// and `texts`, further files by name. No file replaces an older one before all are complete on the disk, so
/// that a full disk leaves an older model as it was; a folder that was created is removed again if a file
/// cannot be written.
///
/// The model must be whole and current on this rank, as Trainer::whole_model() returns it. Throws Error for a
/// model that has neither GPT-2's nor Llama's architecture, and for an unmerged Lora (nn/lora.h). GPT-2 has
/// biases: for a model without biases zeros are written, and load_gpt() leaves them out again while they are
/// zeros.
void save_gpt(GPT& model, const std::filesystem::path& folder,
              const std::map<std::string, std::string>& texts = {});

/// Throws Error if save_gpt() would, for the model's architecture or for a folder that cannot be written.
/// Leaves nothing behind. Call it before a training whose result is to be saved.
void check_save_gpt(const TransformerOptions& options, const std::filesystem::path& folder);

}  // namespace ringtape
