#pragma once

#include <string>

/// Which layer of a model the thread is in, so that a profile can tell what ran in each.
namespace ringtape {

/// A layer's place in a model. There is one object for each place, and it lives as long as the program, so
/// that whoever keeps a pointer to it need not care for the model.
struct Layer {
  const Layer* outer;     ///< null for an outermost one
  std::string name;       ///< by which `outer` calls it; empty for an outermost module, the model
  std::string path;       ///< "blocks.3.fc", or "model" for the model
  std::string span_name;  ///< "layer blocks.3.fc", or "model"
};

/// The layer `name` of `outer`, which is null for an outermost one.
const Layer* find_layer(const Layer* outer, const std::string& name);

/// The innermost layer of this thread, or null.
const Layer* current_layer();

/// Makes `layer` the current one until the scope ends; null for none.
class LayerScope {
 public:
  explicit LayerScope(const Layer* layer);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  const Layer* previous_;
};

}  // namespace ringtape
