#pragma once

#include <filesystem>
#include <vector>

#include "io/safetensors.h"
#include "nn/module.h"
#include "nn/stages.h"

/// A model's parameters in one safetensors file, with PyTorch's names and layout: Python's `safetensors`
/// opens it, and `load_state_dict` takes it where the modules are the same.
namespace ringtape {

/// Writes all parameters of `model`, frozen ones too, to `path`: all of it or nothing (io/file.h). A model
/// whose arena is sharded needs ParameterArena::gather_values() first, on all ranks. Of a model that ranks
/// divide only this rank's parts are written, and one whose values are sharded (ZeRO stage 3) has none to
/// write, which is an Error: there save Trainer::whole_model(). Throws Error when the file cannot be written.
void save_model(Module& model, const std::filesystem::path& path);

/// Overwrites the parameters of `model`, before or after an arena holds them, with the file's. The file must
/// hold exactly these names, with the same dtypes and shapes (where ranks divide the model: the shapes of the
/// whole, of which each rank reads its parts); otherwise Error names the differences, and nothing is changed.
/// With `stages` the model is one of them, and the file has the whole model.
void load_model(Module& model, const std::filesystem::path& path, const Stages* stages = nullptr);

/// Names and tensors of the parameters, as files hold them. The tensors share memory with the model.
std::vector<NamedTensor> weights_of(Module& model);

}  // namespace ringtape
