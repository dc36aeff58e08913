#include "nn/layers.h"

#include <algorithm>
#include <cmath>
#include <typeinfo>

#include "autograd/ops.h"
#include "autograd/recompute.h"
#include "core/error.h"
#include "nn/init.h"
#include "nn/layer_factory.h"
#include "nn/lora.h"
#include "nn/module_scope.h"

namespace ringtape {

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias) {
  check(in > 0 && out > 0, "Linear: sizes must be at least 1, found {} inputs and {} outputs", in, out);
  weight_ = &register_parameter("weight", empty({out, in}));
  init::kaiming_uniform(*weight_, std::sqrt(5.0));
  if (with_bias) {
    bias_ = &register_parameter("bias", empty({out}));
    init::uniform(*bias_, 1.0 / std::sqrt(static_cast<double>(in)));
  }
}

Tensor Linear::forward(const Tensor& x) {
  const Tensor y = linear(x, *weight_, bias_ == nullptr ? Tensor() : *bias_);
  return lora_ == nullptr ? y : add(y, (*lora_)(x));
}

Tensor Linear::forward_relu(const Tensor& x) {
  const ModuleScope scope(*this);
  if (lora_ != nullptr) return relu(forward(x));
  return linear_relu(x, *weight_, bias_ == nullptr ? Tensor() : *bias_);
}

void Linear::set_lora(std::shared_ptr<Lora> lora) {
  lora_ = register_module("lora", std::move(lora));
}

Embedding::Embedding(std::int64_t count, std::int64_t width) {
  check(count > 0 && width > 0, "Embedding: sizes must be at least 1, found {} rows of {}", count, width);
  weight_ = &register_parameter("weight", empty({count, width}));
  init::normal(*weight_, 1);
}

Tensor Embedding::forward(const Tensor& tokens) {
  return embedding(tokens, *weight_);
}

Dropout::Dropout(double p) : p_(p) {
  check(p >= 0 && p < 1, "Dropout: p must be at least 0 and below 1, found {}", p);
}

Tensor Dropout::forward(const Tensor& x) {
  return is_training() ? dropout(x, p_) : x;
}

TokenDropout::TokenDropout(double p, std::shared_ptr<const ContextPart> context, int part, int parts)
    : p_(p), context_(std::move(context)), part_(part), parts_(parts) {
  check(p >= 0 && p < 1, "Dropout: p must be at least 0 and below 1, found {}", p);
}

Tensor TokenDropout::forward(const Tensor& x) {
  if (!is_training()) return x;
  const std::int64_t own = x.size(1), first = part_ * own, of_context = parts_ * own;
  if (context_ == nullptr) return dropout_of_tokens(x, p_, {{first, own}}, of_context);
  return dropout_of_tokens(x, p_, context_->runs(of_context, first, own), of_context * context_->ranks);
}

Tensor GELU::forward(const Tensor& x) {
  return form_ == Form::exact ? gelu(x) : gelu_tanh(x);
}

Tensor ReLU::forward(const Tensor& x) {
  return relu(x);
}

Sequential::Sequential(std::vector<std::shared_ptr<Module>> modules) {
  for (auto& module : modules) push_back(std::move(module));
}

void Sequential::push_back(std::shared_ptr<Module> module) {
  check(module != nullptr, "Sequential: module {} is null", order_.size());
  order_.push_back(register_module(std::to_string(order_.size()), std::move(module)));
}

std::vector<Module*> Sequential::fsdp_units() {
  std::vector<Module*> units;
  for (const auto& module : order_) {
    if (module == nullptr) continue;
    const std::vector<Module*> inner = module->fsdp_units();
    units.insert(units.end(), inner.begin(), inner.end());
    if (inner.empty()) units.push_back(module.get());
  }
  return units;
}

void Sequential::set_recompute(std::int64_t modules) {
  check(modules >= 0, "Sequential: segments to recompute have at least 0 modules, found {}", modules);
  recompute_ = static_cast<std::size_t>(modules);
}

/// Exactly a ReLU: a derived class may compute something else, and forward hooks would not run.
static bool is_relu(const Module& module) {
  return typeid(module) == typeid(ReLU) && !module.has_forward_hooks();
}

Tensor Sequential::run(Tensor x, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    Module& module = *order_[i];
    if (i + 1 < end && typeid(module) == typeid(Linear) && is_relu(*order_[i + 1])) {
      x = static_cast<Linear&>(module).forward_relu(x);
      ++i;
    } else {
      x = module(x);
    }
  }
  return x;
}

Tensor Sequential::forward(const Tensor& x) {
  return forward_units(x, 0, order_.size());
}

Tensor Sequential::forward_units(const Tensor& x, std::size_t first_unit, std::size_t end_unit) {
  const std::size_t begin = first_unit * pipeline_unit_,
                    end = std::min(end_unit * pipeline_unit_, order_.size());
  Tensor y = x;
  const auto run_parts = [this, begin](Tensor input, std::size_t first, std::size_t last) {
    return run(std::move(input), begin + first, begin + last);
  };
  const std::size_t rest = recompute_segments(y, end - begin, recompute_, run_parts);
  return run(std::move(y), begin + rest, end);
}

std::shared_ptr<Sequential> make_mlp(const std::vector<std::int64_t>& sizes) {
  return make_mlp(sizes, LayerFactory());
}

std::shared_ptr<Sequential> make_mlp(const std::vector<std::int64_t>& sizes, const LayerFactory& layers) {
  check(sizes.size() >= 2, "make_mlp: expected at least an input and an output size, found {}", sizes.size());
  auto model = std::make_shared<Sequential>();
  const std::size_t of_unit = layers.ranks() > 1 ? 2 : 1;  // layers
  Stages* const stages = layers.stages();
  if (stages != nullptr) {
    std::vector<double> costs((sizes.size() - 2) / of_unit + 1, 0);
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      costs[i / of_unit] += static_cast<double>(sizes[i]) * static_cast<double>(sizes[i + 1]);
    }
    stages->divide(costs);
    model->set_pipeline_unit(2 * of_unit);
  }
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) model->push_back(std::make_shared<ReLU>());
    std::shared_ptr<Module> layer;
    if (i % 2 == 1) {
      layer = layers.row_linear(sizes[i], sizes[i + 1]);
    } else if (i + 2 < sizes.size()) {
      layer = layers.column_linear(sizes[i], {sizes[i + 1]});
    } else {
      layer = std::make_shared<Linear>(sizes[i], sizes[i + 1]);
    }
    if (stages != nullptr) stages->add(i / of_unit, std::to_string(2 * i), *layer);
    if (stages == nullptr || stages->has(i / of_unit)) {
      model->push_back(std::move(layer));
    } else {
      model->push_back_of_other_stage();
    }
  }
  return model;
}

}  // namespace ringtape
