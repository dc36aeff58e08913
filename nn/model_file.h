#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "io/safetensors.h"
#include "nn/module.h"
#include "nn/stages.h"

/// A model's parameters in one safetensors file, with PyTorch's names and layout: Python's `safetensors`
/// opens it, and `load_state_dict` accepts it for a model of the same modules.
namespace ringtape {

/// Writes all parameters of `model`, including frozen ones, to `path`, atomically (io/file.h). If the arena
/// is sharded, call ParameterArena::gather_values() first, on all ranks. If ranks divide the model, only this
/// rank's parts are written, and if ZeRO stage 3 has sharded the values, Error is thrown: save
/// Trainer::whole_model() then. Throws Error when the file cannot be written.
void save_model(Module& model, const std::filesystem::path& path);

/// Overwrites the parameters of `model` with the file's, before or after an arena holds them, but not once
/// ZeRO stage 3 has sharded them. The file must hold exactly these names, with the same dtypes and shapes
/// (where ranks divide the model: the shapes of the whole parameters, of which each rank takes its parts);
/// otherwise Error names the first difference, and nothing is changed. With `stages` the model is one of
/// these stages, and the file has the whole model.
void load_model(Module& model, const std::filesystem::path& path, const Stages* stages = nullptr);

/// Names and tensors of the parameters, as files hold them. The tensors share memory with the model.
std::vector<NamedTensor> weights_of(Module& model);

/// CRC-32 of the values of these f32 parameters, in this order.
std::uint32_t checksum_of(const std::vector<NamedParameter>& parameters);

}  // namespace ringtape
