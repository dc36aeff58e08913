#include "nn/layers.h"

#include <cmath>

#include "autograd/ops.h"
#include "autograd/recompute.h"
#include "core/error.h"
#include "nn/init.h"
#include "nn/layer_factory.h"
#include "nn/lora.h"

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

void Sequential::set_recompute(std::int64_t modules) {
  check(modules >= 0, "Sequential: segments to recompute have at least 0 modules, found {}", modules);
  recompute_ = static_cast<std::size_t>(modules);
}

Tensor Sequential::run(Tensor x, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i) x = (*order_[i])(x);
  return x;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  const auto run_parts = [this](Tensor input, std::size_t first, std::size_t end) {
    return run(std::move(input), first, end);
  };
  const std::size_t last = recompute_segments(y, order_.size(), recompute_, run_parts);
  return run(std::move(y), last, order_.size());
}

std::shared_ptr<Sequential> make_mlp(const std::vector<std::int64_t>& sizes) {
  return make_mlp(sizes, LayerFactory());
}

std::shared_ptr<Sequential> make_mlp(const std::vector<std::int64_t>& sizes, const LayerFactory& layers) {
  check(sizes.size() >= 2, "make_mlp: expected at least an input and an output size, found {}", sizes.size());
  auto model = std::make_shared<Sequential>();
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) model->push_back(std::make_shared<ReLU>());
    if (i % 2 == 1) {
      model->push_back(layers.row_linear(sizes[i], sizes[i + 1]));
    } else if (i + 2 < sizes.size()) {
      model->push_back(layers.column_linear(sizes[i], {sizes[i + 1]}));
    } else {
      model->push_back(std::make_shared<Linear>(sizes[i], sizes[i + 1]));
    }
  }
  return model;
}

}  // namespace ringtape
