#include "nn/lora.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "nn/freeze.h"
#include "nn/init.h"
#include "nn/layers.h"

namespace ringtape {
namespace {

struct NamedLinear {
  std::string name;
  Linear* layer;
};

std::vector<NamedLinear> linear_layers(Module& model) {
  std::vector<NamedLinear> layers;
  for (const auto& [name, module] : model.named_modules()) {
    if (auto* const layer = dynamic_cast<Linear*>(module)) layers.push_back({name, layer});
  }
  return layers;
}

}  // namespace

Lora::Lora(std::int64_t in, std::int64_t out, std::int64_t rank, double alpha)
    : scale_(alpha / static_cast<double>(rank)) {
  check(rank >= 1 && rank <= std::min(in, out),
        "LoRA: the rank for a layer of {} inputs and {} outputs must be 1 to {}, found {}", in, out,
        std::min(in, out), rank);
  check(std::isfinite(alpha) && alpha > 0, "LoRA: alpha must be finite and above 0, found {}", alpha);
  a_ = &register_parameter("A", empty({rank, in}));
  init::kaiming_uniform(*a_, std::sqrt(5.0));
  b_ = &register_parameter("B", zeros({out, rank}));
}

Tensor Lora::forward(const Tensor& x) {
  return linear(scale(linear(x, *a_), scale_), *b_);
}

void Lora::merge_into(Tensor& weight) {
  const NoGrad no_grad;
  const Tensor product = matmul(b_->detach(), a_->detach());
  weight.copy_from(add(weight.detach(), scale(product, scale_)));
  b_->copy_from(zeros(b_->shape(), b_->dtype(), b_->device()));
}

bool Lora::is_merged() const {
  const std::vector<float> values = b_->to_vector<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

std::int64_t add_lora(Module& model, const LoraOptions& options) {
  const std::vector<NamedLinear> layers = linear_layers(model);
  std::vector<std::string> names;
  for (const NamedLinear& linear : layers) names.push_back(linear.name);
  check_patterns("linear layer", options.targets, names);
  std::vector<std::pair<Linear*, std::shared_ptr<Lora>>> added;
  for (const auto& [name, layer] : layers) {
    if (!matches_one_of(options.targets, name)) continue;
    check(layer->lora() == nullptr, "LoRA: the linear layer {} has a Lora already, expected one without",
          name);
    const Shape shape = layer->parameter("weight").shape();
    added.emplace_back(layer, std::make_shared<Lora>(shape[1], shape[0], options.rank, options.alpha));
  }
  model.requires_grad(false);
  for (const auto& [layer, lora] : added) layer->set_lora(lora);
  return std::ssize(added);
}

void merge_lora(Module& model) {
  for (const auto& [name, layer] : linear_layers(model)) {
    if (layer->lora() != nullptr) layer->lora()->merge_into(layer->parameter("weight"));
  }
}

bool has_unmerged_lora(Module& model) {
  const std::vector<NamedLinear> layers = linear_layers(model);
  return std::any_of(layers.begin(), layers.end(), [](const NamedLinear& linear) {
    return linear.layer->lora() != nullptr && !linear.layer->lora()->is_merged();
  });
}

}  // namespace ringtape
