#include "train/weights.h"

namespace ringtape {

std::vector<NamedTensor> weights_of(Module& model) {
  std::vector<NamedTensor> weights;
  for (const NamedParameter& parameter : model.named_parameters()) {
    weights.push_back({parameter.name, *parameter.tensor});
  }
  return weights;
}

}  // namespace ringtape
