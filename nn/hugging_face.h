#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/gpt.h"

/// Folders of Hugging Face's `transformers`: config.json, and the weights in model.safetensors or in shards
/// that model.safetensors.index.json lists. GPT2LMHeadModel and LlamaForCausalLM, whose `from_pretrained`
/// opens what is written here.
namespace ringtape {

/// The options that config.json describes. Throws Error that names the file for another kind of model, a
/// missing member, and settings that this library does not have.
TransformerOptions read_transformer_config(const std::filesystem::path& folder);

/// A GPT with the weights of the folder (f32, bf16 or f16; kept in f32). Names may begin with "transformer.",
/// GPT-2's mask buffers are ignored, and a tied lm_head may be absent. Throws Error that names what is
/// missing, what is left over, and tensors of another shape.
/// `dropout` replaces all probabilities of config.json.
std::shared_ptr<GPT> load_gpt(const std::filesystem::path& folder,
                              std::optional<double> dropout = std::nullopt);

/// Writes the model's config.json and model.safetensors (f32) to the folder, which is made if necessary, and
/// `texts`, further files by name. None takes the place of an older file before all are complete on the disk,
/// so that a full disk leaves an older model as it was; a folder that was made goes again if one of them
/// cannot be written.
/// The model must be whole and current on this rank, as Trainer::whole_model() returns it. Throws Error for a
/// model that is shaped neither like GPT-2 nor like Llama, and one with a Lora that is not merged
/// (nn/lora.h). GPT-2 has biases: for a model without them zeros are written, and load_gpt() leaves
/// them out again while they are zeros.
void save_gpt(GPT& model, const std::filesystem::path& folder,
              const std::map<std::string, std::string>& texts = {});

/// Throws Error if save_gpt() would: for the shape of the model, and for a folder that cannot be written.
/// Leaves nothing behind. To be called before a training whose result is to be saved.
void check_save_gpt(const TransformerOptions& options, const std::filesystem::path& folder);

}  // namespace ringtape
