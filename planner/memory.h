#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "nn/memory_estimate.h"
#include "planner/model_state.h"
#include "planner/transformer.h"

namespace ringtape::planner {

/// Memory of one rank.
struct MemoryPlan {
  std::int64_t parameters = 0;  ///< elements, without padding
  std::int64_t trained = 0;
  std::vector<MemoryRow> rows;
  std::vector<std::string> notes;

  std::int64_t total() const;
};

/// Settings for every kind of model.
struct MemoryRequest {
  Sharding sharding = {};
  std::int64_t micro_batch = 1;
  DType compute = DType::f32;            ///< f32, bf16 or f16
  std::int64_t state_per_parameter = 2;  ///< values in f32
  bool inference = false;
  std::int64_t workspace = 0;  ///< bytes
};

/// An MLP as this framework trains it: estimate_memory() of nn/memory_estimate.h, whose bytes equal the
/// allocator's counts. The last `trainable_layers` layers are trained.
struct MlpRequest {
  std::vector<std::int64_t> sizes;
  bool with_bias = true;
  std::optional<std::int64_t> trainable_layers = {};  ///< all if not given
  std::int64_t recompute = 0;                         ///< layers in a segment
};
/// Throws Error for sizes out of range.
MemoryPlan plan_memory(const MlpRequest& mlp, const MemoryRequest& request);

/// A GPT as this framework trains it (nn/gpt.h, attention in tiles): estimate_memory() of nn/gpt_estimate.h.
struct GptRequest {
  TransformerOptions model;    ///< of GPT-2's architecture
  std::int64_t recompute = 0;  ///< blocks in a segment
};
/// Throws Error for sizes out of range, and for inference.
MemoryPlan plan_memory(const GptRequest& gpt, const MemoryRequest& request);

/// A transformer by formula. `trainable_fraction`, above 0 and up to 1, of its parameters is trained.
struct TransformerRequest {
  TransformerOptions model;  ///< of GPT-2's architecture
  double trainable_fraction = 1;
  bool f32_gradients = false;  ///< with a 16-bit model; else gradients have its dtype, as in the papers
  Recompute recompute = Recompute::none;
};
/// Throws Error for sizes out of range.
MemoryPlan plan_memory(const TransformerRequest& transformer, const MemoryRequest& request);

/// The state of a model with a known number of parameters, without activations.
MemoryPlan plan_state(std::int64_t parameters, const TransformerRequest& transformer,
                      const MemoryRequest& request);

/// The plan as a table, and as a JSON object for scripts.
std::string memory_text(const MemoryPlan& plan);
Json memory_json(const MemoryPlan& plan);

}  // namespace ringtape::planner
