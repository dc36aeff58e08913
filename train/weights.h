#pragma once

#include <vector>

#include "core/safetensors.h"
#include "nn/module.h"

namespace ringtape {

/// Names and tensors of the model's parameters, as files hold them.
std::vector<NamedTensor> weights_of(Module& model);

}  // namespace ringtape
