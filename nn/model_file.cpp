#include "nn/model_file.h"

namespace ringtape {

std::vector<NamedTensor> weights_of(Module& model) {
  std::vector<NamedTensor> weights;
  for (const NamedParameter& parameter : model.named_parameters()) {
    weights.push_back({parameter.name, *parameter.tensor});
  }
  return weights;
}

void save_model(Module& model, const std::filesystem::path& path) {
  save_safetensors(path, weights_of(model), {{"format", "pt"}});  // as Python's safetensors.torch writes it
}

void load_model(Module& model, const std::filesystem::path& path) {
  SafetensorsFile(path).load_into(weights_of(model));
}

}  // namespace ringtape
