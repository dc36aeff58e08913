#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "autograd/tape.h"
#include "nn/module.h"
#include "optim/registry.h"
#include "optim/sgd.h"
#include "tests/support/tensors.h"

namespace ringtape::test {

using Values = std::vector<double>;

/// Two parameters whose gradients a test sets.
struct Two : Module {
  Two()
      : a(register_parameter("a", tensor_of({1, 2}, {2}))), b(register_parameter("b", tensor_of({3}, {1}))) {}
  Tensor forward(const Tensor& x) override { return x; }
  Tensor& a;
  Tensor& b;
};

/// Adds `gradient` to the gradient of `parameter`.
inline void add_gradient(const Tensor& parameter, const Values& gradient) {
  sum(multiply(parameter, tensor_of(gradient, parameter.shape()))).backward();
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ParameterArena&)>;

/// One optimizer of each kind with decay, and plain SGD.
inline std::vector<MakeOptimizer> all_optimizers() {
  std::vector<MakeOptimizer> makers = {[](ParameterArena& arena) { return std::make_unique<SGD>(arena); }};
  for (const OptimizerKind& kind : optimizers()) {
    makers.push_back([&kind](ParameterArena& arena) {
      OptimizerSettings settings = kind.defaults;
      settings.weight_decay = 0.1;
      return kind.make(arena, settings, {});
    });
  }
  return makers;
}

}  // namespace ringtape::test
