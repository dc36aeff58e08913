#pragma once

#include "core/memory.h"
#include "nn/module.h"
#include "trace/layer.h"
#include "trace/spans.h"

namespace ringtape {

/// Until the scope ends, this thread is in the forward of `module`: new memory counts as activations, and
/// operations belong to the module's layer. Runs the module's forward hooks when it begins and ends.
/// Module::operator() opens a scope, as does every other forward of a module.
class ModuleScope {
 public:
  explicit ModuleScope(Module& module)
      : memory_(MemoryCategory::activations),
        layer_(module.layer_in(current_layer())),
        within_(layer_),
        span_(SpanKind::layer, layer_->span_name.c_str()),
        module_(module) {
    if (module_.forward_hooks_.before) module_.forward_hooks_.before();
  }
  ~ModuleScope() {
    if (module_.forward_hooks_.after) module_.forward_hooks_.after();
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  MemoryScope memory_;
  const Layer* layer_;
  LayerScope within_;
  SpanScope span_;
  Module& module_;
};

}  // namespace ringtape
