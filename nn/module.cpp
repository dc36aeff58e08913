#include "nn/module.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/tape.h"
#include "core/error.h"
#include "nn/module_scope.h"

namespace ringtape {
namespace {

constexpr const char* kTooLate =
    "would not be trained, because the parameter arena was made before: expected every part of the model "
    "then";

}  // namespace

Tensor Module::operator()(const Tensor& x) {
  const ModuleScope scope(*this);
  return forward(x);
}

Tensor Module::forward_units(const Tensor&, std::size_t, std::size_t) {
  fail("module{}{}: it is not a chain of units that the stages of a pipeline could divide",
       name_.empty() ? "" : " ", name_);
}

void Module::collect(const std::string& prefix, std::vector<NamedParameter>& parameters) {
  for (const NamedParameter& own : parameters_) {
    const bool listed = std::any_of(parameters.begin(), parameters.end(),
                                    [&](const NamedParameter& other) { return other.tensor == own.tensor; });
    if (!listed) parameters.push_back({prefix + own.name, own.tensor});
  }
  for (const auto& [name, module] : modules_) module->collect(prefix + name + ".", parameters);
}

void Module::collect(const std::string& prefix, std::vector<NamedModule>& modules) {
  for (const auto& [name, module] : modules_) {
    const bool listed =
        std::any_of(modules.begin(), modules.end(),
                    [own = module.get()](const NamedModule& other) { return other.module == own; });
    if (listed) continue;
    modules.push_back({prefix + name, module.get()});
    module->collect(prefix + name + ".", modules);
  }
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> modules;
  collect("", modules);
  return modules;
}

std::vector<NamedParameter> Module::named_parameters() {
  std::vector<NamedParameter> parameters;
  collect("", parameters);
  return parameters;
}

Tensor& Module::parameter(const std::string& name) {
  std::vector<std::string> names;
  for (const NamedParameter& candidate : named_parameters()) {
    if (candidate.name == name) return *candidate.tensor;
    names.push_back(candidate.name);
  }
  fail("no parameter is called '{}': there are {}", name, fmt::join(names, ", "));
}

void Module::requires_grad(bool value) {
  for (const NamedParameter& parameter : named_parameters()) parameter.tensor->set_requires_grad(value);
}

std::vector<Module*> Module::fsdp_units() {
  std::vector<Module*> units;
  for (const auto& [name, module] : modules_) {
    const std::vector<Module*> inner = module->fsdp_units();
    units.insert(units.end(), inner.begin(), inner.end());
  }
  return units;
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, module] : modules_) module->train(on);
}

const Layer* Module::layer_in(const Layer* outer) {
  const Layer* layer = layer_.load(std::memory_order_relaxed);
  if (layer == nullptr || layer->outer != outer) {
    layer = find_layer(outer, name_);
    layer_.store(layer, std::memory_order_relaxed);
  }
  return layer;
}

void Module::set_name(const std::string& name) {
  if (!name_.empty()) return;
  name_ = name;
  layer_ = nullptr;
}

void Module::check_new_name(const std::string& name) const {
  check(!name.empty() && name.find('.') == std::string::npos,
        "the name of a module's part must not be empty or have a dot, found '{}'", name);
  for (const NamedParameter& own : parameters_)
    check(own.name != name, "this module has a parameter '{}' already", name);
  for (const auto& [own, module] : modules_)
    check(own != name, "this module has a module '{}' already", name);
}

bool Module::any_parameter(const std::function<bool(const Tensor&)>& predicate) const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [&](const NamedParameter& own) { return predicate(*own.tensor); }) ||
         std::any_of(modules_.begin(), modules_.end(),
                     [&](const auto& part) { return part.second->any_parameter(predicate); });
}

bool Module::is_in_arena() const {
  return any_parameter([](const Tensor& parameter) {
    return parameter.autograd != nullptr && !parameter.autograd->arena.expired();
  });
}

void Module::check_new_module(const std::string& name, Module* module) {
  check_new_name(name);
  check(module != nullptr, "register_module: module '{}' is null", name);
  const std::vector<NamedModule> parts = module->named_modules();
  const bool has_this = std::any_of(parts.begin(), parts.end(),
                                    [this](const NamedModule& part) { return part.module == this; });
  check(module != this && !has_this, "register_module: module '{}' contains the module that it is to be in",
        name);
  const bool is_outside = module->any_parameter([](const Tensor& parameter) {
    return parameter.requires_grad() && parameter.autograd->arena.expired();
  });
  check(!is_outside || !is_in_arena(), "register_module: module '{}' {}", name, kTooLate);
}

Tensor& Module::register_parameter(std::string name, Tensor value) {
  check_new_name(name);
  check(value.defined(), "register_parameter: parameter '{}' is an undefined tensor", name);
  check(value.autograd == nullptr || value.autograd->name.empty(),
        "register_parameter: '{}' is the parameter '{}' already: expected share_parameter() for tied weights",
        name, value.autograd == nullptr ? "" : value.autograd->name);
  check(!is_in_arena(), "register_parameter: parameter '{}' {}", name, kTooLate);
  Tensor& tensor = owned_.emplace_back(std::move(value));
  tensor.set_requires_grad(true);
  tensor.autograd->name = name;
  parameters_.push_back({std::move(name), &tensor});
  return tensor;
}

void Module::share_parameter(std::string name, Tensor& owner) {
  check_new_name(name);
  const bool is_outside = owner.requires_grad() && owner.autograd->arena.expired();
  check(!is_outside || !is_in_arena(), "share_parameter: parameter '{}' {}", name, kTooLate);
  parameters_.push_back({std::move(name), &owner});
}

}  // namespace ringtape
