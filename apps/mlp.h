#pragma once

#include <cstdint>
#include <vector>

#include "cli/train_program.h"

namespace ringtape {

/// The model and its flags for programs that train a multilayer perceptron.
struct MlpOptions {
  std::vector<std::int64_t> hidden = {256};  ///< sizes of the hidden layers
  std::int64_t recompute = 0;                ///< layers in a recomputed segment; 0: no recomputation

  void add_flags(CommandLine& flags);
  /// Sets the task's model, an MLP with these numbers of inputs and outputs, its name, settings and memory
  /// formula.
  void set_model(Task& task, std::int64_t inputs, std::int64_t outputs) const;
};

}  // namespace ringtape
