#pragma once

#include <utility>
#include <vector>

#include "nn/module.h"

namespace ringtape {

/// Puts a model into evaluation mode. At the end of the scope each of its modules returns to its previous
/// mode.
class EvalScope {
 public:
  /// The model must outlive the scope.
  explicit EvalScope(Module& model) {
    modes_.emplace_back(&model, model.is_training());
    for (const NamedModule& inner : model.named_modules()) {
      modes_.emplace_back(inner.module, inner.module->is_training());
    }
    model.eval();
  }
  ~EvalScope() {
    for (const auto& [module, is_training] : modes_) module->set_mode_alone(is_training);
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace ringtape
