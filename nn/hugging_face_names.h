#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/transformer.h"

namespace ringtape {

/// The tensors of a `transformers` folder that hold a parameter of a GPT.
struct WeightSource {
  std::string parameter;             ///< its name in GPT
  std::vector<std::string> tensors;  ///< one, or several whose rows are joined
  std::vector<std::int64_t> rows;    ///< of each tensor in the parameter; empty for a vector
  bool transposed = false;           ///< stored as [in, out] (GPT-2's Conv1D)
};

/// The sources of all parameters of a model with these options.
std::vector<WeightSource> weight_sources(const TransformerOptions& options);

}  // namespace ringtape
