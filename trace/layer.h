#pragma once

#include <string>

/// The layer of a model that a thread is in, for profiles by layer.
namespace ringtape {

/// A layer's position in a model. There is one object for each position, and it lives as long as the program,
/// so a pointer to it stays valid after the model is destroyed.
struct Layer {
  const Layer* outer;     ///< null for an outermost one
  std::string name;       ///< its name in `outer`; empty for an outermost module, the model
  std::string path;       ///< "blocks.3.fc", or "model" for the model
  std::string span_name;  ///< "layer blocks.3.fc", or "model"
};

/// The layer `name` in `outer`; `outer` is null for an outermost layer.
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
