#include "nn/model_file.h"

#include "io/checksum.h"
#include "nn/parameter_shard.h"

namespace ringtape {

std::vector<NamedTensor> weights_of(Module& model) {
  std::vector<NamedTensor> weights;
  for (const NamedParameter& parameter : model.named_parameters()) {
    weights.push_back({parameter.name, *parameter.tensor});
  }
  return weights;
}

std::uint32_t checksum_of(const std::vector<NamedParameter>& parameters) {
  std::uint32_t checksum = 0;
  for (const NamedParameter& parameter : parameters) {
    const std::vector<float> values = parameter.tensor->to_vector<float>();
    checksum = crc32(checksum, values.data(), values.size() * sizeof(float));
  }
  return checksum;
}

void save_model(Module& model, const std::filesystem::path& path) {
  save_safetensors(path, weights_of(model), {{"format", "pt"}});  // as Python's safetensors.torch writes it
}

void load_model(Module& model, const std::filesystem::path& path, const Stages* stages) {
  const SafetensorsFile file(path);
  std::vector<NamedTensor> wholes = weights_of(model);
  const std::vector<NamedParameter> parameters = model.named_parameters();
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    if (shard_of(*parameters[i].tensor) != nullptr)
      wholes[i].tensor = empty(whole_shape_of(*parameters[i].tensor));
  }
  std::vector<SafetensorsFile::Expected> of_all;
  if (stages != nullptr) {
    for (const Stages::Parameter& each : stages->parameters()) of_all.push_back({each.name, each.shape});
  }
  file.load_into(wholes, of_all);
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    if (shard_of(*parameters[i].tensor) != nullptr) load_whole(*parameters[i].tensor, wholes[i].tensor);
  }
}

}  // namespace ringtape
