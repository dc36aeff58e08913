#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace ringtape {

struct Layer;
class Module;

/// A parameter with its full name, such as "0.weight". The pointer is to the tensor that the module computes
/// with; it stays valid as long as the module, so that the parameter arena can move the elements behind it.
struct NamedParameter {
  std::string name;
  Tensor* tensor;
};

/// A submodule with its full name, such as "h.0.attn".
struct NamedModule {
  std::string name;
  Module* module;
};

/// A part of a model: parameters, submodules, and a forward. A Module can be neither copied nor moved.
class Module {
  friend class ModuleScope;

 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The module's computation, which a derived class overrides. Call operator() instead: it also runs the
  /// hooks.
  virtual Tensor forward(const Tensor& x) = 0;
  /// The forward of units `first` to `end` - 1 of a model that is a chain of pipeline units (nn/stages.h).
  /// Throws Error for other modules.
  virtual Tensor forward_units(const Tensor& x, std::size_t first, std::size_t end);
  /// forward(x) within a ModuleScope (nn/module_scope.h): memory counts as activations, operations belong to
  /// this module's layer, and the forward hooks run, which gather the parameters in ZeRO stage 3.
  Tensor operator()(const Tensor& x);

  /// All parameters: the module's own first, then those of its submodules, each in order of registration.
  /// Names are joined by dots. A parameter shared by two modules is listed once, under its first name.
  std::vector<NamedParameter> named_parameters();
  /// All submodules at any depth, each before its own submodules, in order of registration. A module that two
  /// modules share is listed once, under its first name.
  std::vector<NamedModule> named_modules();
  /// The parameter of that name. Throws Error that lists all names if there is none.
  Tensor& parameter(const std::string& name);
  /// Sets requires_grad of all parameters. Call it before the parameter arena is made: parameters that are
  /// frozen by then have no gradient, no optimizer state and no weight decay.
  void requires_grad(bool value);

  /// The FSDP units: the modules whose parameters ZeRO stage 3 gathers one module at a time, none of which is
  /// inside another. Default: those of the submodules.
  virtual std::vector<Module*> fsdp_units();
  /// Functions that run when a forward of this module begins, and when it ends, even by an exception. `after`
  /// must not throw. A null function is not called.
  struct ForwardHooks {
    std::function<void()> before;
    std::function<void()> after;
  };
  void set_forward_hooks(ForwardHooks hooks) { forward_hooks_ = std::move(hooks); }
  bool has_forward_hooks() const { return forward_hooks_.before || forward_hooks_.after; }

  /// Sets training mode, the default, or with false evaluation mode, here and in all submodules.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  /// train() without the submodules.
  void set_mode_alone(bool on) { training_ = on; }

 protected:
  // Each registers a part under a name. Throws Error for a name that is empty, has a dot or is already used
  // in this module, and for parameters to train if a ParameterArena has this module's parameters already.

  /// Makes `value` a parameter that requires a gradient. The reference stays valid as long as the module:
  /// keep it or a pointer, not a copy of the tensor, since an arena moves the parameter's elements. Throws
  /// Error for an undefined tensor, and for a tensor that is a parameter already.
  Tensor& register_parameter(std::string name, Tensor value);
  /// Registers a parameter that another module owns, which must outlive this one: both then compute with the
  /// same tensor (tied weights).
  void share_parameter(std::string name, Tensor& owner);
  /// Registers a submodule and returns it. Throws Error for null and for a module that contains this one.
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    check_new_module(name, module.get());
    static_cast<Module&>(*module).set_name(name);
    modules_.emplace_back(std::move(name), module);
    return module;
  }

 private:
  void set_name(const std::string& name);
  const Layer* layer_in(const Layer* outer);
  void check_new_name(const std::string& name) const;
  void check_new_module(const std::string& name, Module* module);
  bool any_parameter(const std::function<bool(const Tensor&)>& predicate) const;
  bool is_in_arena() const;
  void collect(const std::string& prefix, std::vector<NamedParameter>& parameters);
  void collect(const std::string& prefix, std::vector<NamedModule>& modules);

  std::deque<Tensor> owned_;  // a deque keeps its elements where they are
  std::vector<NamedParameter> parameters_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;
  ForwardHooks forward_hooks_;
  bool training_ = true;
  std::string name_;                           // the first that another module has given it, or empty
  std::atomic<const Layer*> layer_ = nullptr;  // the last result of layer_in()
};

}  // namespace ringtape
