#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/module.h"

/// Low-rank adaptation (Hu et al., "LoRA: Low-rank adaptation of large language models", 2021): a linear
/// layer keeps its weight W [out, in] and learns a product B A of rank r that is added to it, so that only
/// r (in + out) values have gradients and optimizer state. After training B A is added to W, and the layer
/// costs no more than before.
namespace ringtape {

/// The linear layers that get low-rank factors, and the rank of the factors.
struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 16;  ///< the product is multiplied by alpha / rank
  /// Names of linear layers, as patterns (nn/freeze.h).
  std::vector<std::string> targets = {"*"};
};

/// The term that a linear layer adds to its result for x [.., in]: alpha / rank * (x A^T) B^T. Parameters: A
/// [rank, in], initialised uniformly in +-1 / sqrt(in) as a linear layer's weight, and B [out, rank],
/// initialised to 0, so that the layer is unchanged at first.
class Lora : public Module {
 public:
  /// Throws Error for a rank below 1 or above `in` or `out`, or an alpha that is not finite and above 0.
  Lora(std::int64_t in, std::int64_t out, std::int64_t rank, double alpha);
  Tensor forward(const Tensor& x) override;

  /// Adds alpha / rank * B A to the layer's weight [out, in], and sets B to 0.
  void merge_into(Tensor& weight);
  /// Whether B is 0. Waits for the device.
  bool is_merged() const;

 private:
  double scale_;
  Tensor* a_;
  Tensor* b_;
};

/// Freezes all parameters of the model, and gives a Lora to each linear layer that a target matches. Call it
/// before the parameter arena is made. Returns the number of these layers. Throws Error for a target that
/// matches no linear layer, for a layer that already has a Lora, and as Lora does; the model is unchanged
/// then.
std::int64_t add_lora(Module& model, const LoraOptions& options);

/// Adds every Lora's product to the weight of its layer (Lora::merge_into()): the model computes the same, up
/// to rounding. The Loras stay in the model with B = 0, and save_model() writes their parameters too;
/// save_gpt() leaves them out. Needs current values (ParameterArena::gather_values()).
void merge_lora(Module& model);

/// Whether a Lora's product is not in its layer's weight yet.
bool has_unmerged_lora(Module& model);

}  // namespace ringtape
