#include "trace/layer.h"

#include <map>
#include <mutex>
#include <utility>

namespace ringtape {
namespace {

thread_local const Layer* thread_layer = nullptr;

Layer make_layer(const Layer* outer, const std::string& name) {
  if (name.empty()) return {outer, name, "model", "model"};
  const std::string path = outer == nullptr || outer->name.empty() ? name : outer->path + "." + name;
  return {outer, name, path, "layer " + path};
}

}  // namespace

const Layer* find_layer(const Layer* outer, const std::string& name) {
  static std::mutex mutex;
  static std::map<std::pair<const Layer*, std::string>, Layer> layers;  // a map never moves its elements
  const std::lock_guard lock(mutex);
  const std::pair key(outer, name);
  const auto found = layers.find(key);
  return found != layers.end() ? &found->second : &layers.emplace(key, make_layer(outer, name)).first->second;
}

const Layer* current_layer() {
  return thread_layer;
}

LayerScope::LayerScope(const Layer* layer) : previous_(std::exchange(thread_layer, layer)) {}
LayerScope::~LayerScope() {
  thread_layer = previous_;
}

}  // namespace ringtape
