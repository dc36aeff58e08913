#include "planner/memory.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/gpt_estimate.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

using enum MemoryCategory;

std::int64_t bytes_of(const BytesByCategory& bytes, MemoryCategory category) {
  return static_cast<std::int64_t>(bytes[category]);
}

void append(std::vector<MemoryRow>& rows, const std::vector<MemoryRow>& more) {
  rows.insert(rows.end(), more.begin(), more.end());
}

void add_workspace(MemoryPlan& plan, std::int64_t workspace) {
  check(workspace >= 0 && workspace <= kMaxSize, "the workspace must be 0 to {} bytes, found {}", kMaxSize,
        workspace);
  plan.rows.push_back({"workspace", workspace, "as given"});
}

/// Elements of a layer's weight and bias, without padding.
std::int64_t layer_elements(const MlpRequest& mlp, std::size_t layer) {
  const std::int64_t outputs = mlp.sizes[layer + 1];
  return product(mlp.sizes[layer], outputs) + (mlp.with_bias ? outputs : 0);
}

/// Elements of the parameters from layer number `first` on, without padding.
std::int64_t mlp_parameters(const MlpRequest& mlp, std::int64_t first) {
  std::int64_t sum = 0;
  for (auto i = static_cast<std::size_t>(first); i + 1 < mlp.sizes.size(); ++i) sum += layer_elements(mlp, i);
  return sum;
}

std::int64_t largest_mlp_layer(const MlpRequest& mlp) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i + 1 < mlp.sizes.size(); ++i) largest = std::max(largest, layer_elements(mlp, i));
  return largest;
}

/// "192 KiB = 0.1875 MiB"
std::string in_kib_and_mib(std::int64_t bytes) {
  constexpr std::int64_t kMib = 1 << 20;
  const std::string text = bytes_text(bytes);
  return bytes < kMib ? fmt::format("{} = {:.4g} MiB", text, static_cast<double>(bytes) / kMib) : text;
}

/// The rows of a model of this framework: its arena, sharded or not, and the peak of an update.
std::vector<MemoryRow> framework_rows(const BytesByCategory& estimate, std::int64_t arena_elements,
                                      std::int64_t largest_layer, const MemoryRequest& request,
                                      const std::string& data_text) {
  MemoryPlan plan;
  plan.rows = state_memory({.parameters = arena_elements,
                            .trained = bytes_of(estimate, gradients) / 4,
                            .compute_bytes = static_cast<std::int64_t>(size_of(request.compute)),
                            .gradient_bytes = 4,
                            .state_per_parameter = request.state_per_parameter,
                            .frozen_in_f32 = true,
                            .block = 256,
                            .largest_layer = largest_layer},
                           request.sharding);
  const std::string batch = grouped(request.micro_batch, "sample") + ", at the peak";
  append(plan.rows, {{"activations", bytes_of(estimate, activations), batch},
                     {"their gradients", bytes_of(estimate, activation_gradients), batch},
                     {"data", bytes_of(estimate, data), data_text}});
  add_workspace(plan, request.workspace);
  return plan.rows;
}

constexpr const char* kFrameworkNote =
    "parameters are padded to 256 bytes each, as in the arena; activations are those that the allocator "
    "counts";

MemoryPlan state_of(std::int64_t parameters, std::int64_t largest, const TransformerRequest& transformer,
                    const MemoryRequest& request) {
  check_size("the number of parameters", parameters);
  check(transformer.trainable_fraction > 0 && transformer.trainable_fraction <= 1,
        "the trainable fraction must be above 0 and at most 1, found {}", transformer.trainable_fraction);
  const auto bytes = static_cast<std::int64_t>(size_of(request.compute));
  ModelState state;
  state.parameters = parameters;
  state.trained =
      request.inference ? 0 : std::llround(transformer.trainable_fraction * static_cast<double>(parameters));
  state.compute_bytes = bytes;
  state.gradient_bytes = transformer.f32_gradients ? 4 : bytes;
  state.state_per_parameter = request.state_per_parameter;
  state.largest_layer = largest;
  return {.parameters = parameters,
          .trained = state.trained,
          .rows = state_memory(state, request.sharding),
          .notes = {}};
}

}  // namespace

std::int64_t MemoryPlan::total() const {
  std::int64_t sum = 0;
  for (const MemoryRow& row : rows) sum += row.bytes;
  return sum;
}

MemoryPlan plan_memory(const MlpRequest& mlp, const MemoryRequest& request) {
  for (const std::int64_t size : mlp.sizes) check_size("a layer's size", size);
  check(mlp.sizes.size() >= 2, "an MLP has at least an input and an output size, found {}", mlp.sizes.size());
  check_size("the micro-batch", request.micro_batch);
  const auto layers = static_cast<std::int64_t>(mlp.sizes.size()) - 1;
  const std::int64_t trainable_layers = request.inference ? 0 : mlp.trainable_layers.value_or(layers);
  check(trainable_layers >= (request.inference ? 0 : 1) && trainable_layers <= layers,
        "{} layers are trained: expected 1 to {}", trainable_layers, layers);
  check(mlp.recompute <= layers,
        "segments of {} layers are recomputed: expected at most the {} that there are", mlp.recompute,
        layers);
  std::int64_t all_sizes = 0;
  for (const std::int64_t size : mlp.sizes) {
    product(
        4, product(size, request.micro_batch));  // throws where a number of bytes below would be out of range
    all_sizes += size;
  }
  const std::int64_t frozen = layers - trainable_layers;
  MlpMemoryProblem problem{.sizes = mlp.sizes,
                           .micro_batch = request.micro_batch,
                           .state_per_parameter = request.state_per_parameter,
                           .recompute = request.inference ? 0 : mlp.recompute,
                           .compute = request.compute,
                           .with_bias = mlp.with_bias,
                           .frozen = frozen};
  MemoryPlan plan;
  plan.parameters = mlp_parameters(mlp, 0);
  plan.trained = mlp_parameters(mlp, frozen);
  const BytesByCategory estimate = estimate_memory(problem);
  problem.compute = DType::f32;
  const std::int64_t value_bytes = static_cast<std::int64_t>(size_of(request.compute));
  plan.rows = framework_rows(
      estimate, bytes_of(estimate_memory(problem), parameters) / 4, largest_mlp_layer(mlp), request,
      fmt::format("{} x {} x {}", value_bytes, grouped(request.micro_batch), grouped(mlp.sizes[0])));
  plan.notes.push_back(kFrameworkNote);
  if (request.inference) {
    const std::int64_t all = product(value_bytes, product(request.micro_batch, all_sizes));
    plan.notes.push_back(
        fmt::format("the inputs and all layers' results together: {} x {} x {} = {}; a forward that keeps no "
                    "more than it needs has less at a time",
                    value_bytes, grouped(request.micro_batch), grouped(all_sizes), in_kib_and_mib(all)));
  }
  return plan;
}

MemoryPlan plan_memory(const GptRequest& gpt, const MemoryRequest& request) {
  check_sizes(gpt.model);
  check_size("the micro-batch", request.micro_batch);
  check(!request.inference, "attention in tiles is for training: expected no --inference");
  GptMemoryProblem problem{.model = gpt.model,
                           .sequences = request.micro_batch,
                           .state_per_parameter = request.state_per_parameter,
                           .recompute = gpt.recompute,
                           .compute = request.compute};
  check(gpt.recompute <= gpt.model.layers,
        "segments of {} layers are recomputed: expected at most the {} that there are", gpt.recompute,
        gpt.model.layers);
  // Throws where a number of bytes below would be out of range.
  product(4,
          product(product(request.micro_batch, gpt.model.context),
                  std::max(gpt.model.vocabulary, product(34, product(gpt.model.layers, gpt.model.width)))));
  MemoryPlan plan;
  plan.parameters = plan.trained = parameter_count(gpt.model);
  const BytesByCategory estimate = estimate_memory(problem);
  problem.compute = DType::f32;
  plan.rows = framework_rows(estimate, bytes_of(estimate_memory(problem), parameters) / 4,
                             largest_layer(gpt.model), request,
                             fmt::format("4 x {} x {}, and as many targets", grouped(request.micro_batch),
                                         grouped(gpt.model.context, "token")));
  plan.notes.push_back(kFrameworkNote);
  const double flops =
      forward_flops(problem.model, 1, gpt.model.context) / static_cast<double>(gpt.model.context);
  plan.notes.push_back(fmt::format("{:.4g} GFLOP a token in forward, twice that in backward", flops * 1e-9));
  return plan;
}

MemoryPlan plan_memory(const TransformerRequest& transformer, const MemoryRequest& request) {
  const TransformerOptions& model = transformer.model;
  check_sizes(model);
  const auto bytes = static_cast<std::int64_t>(size_of(request.compute));
  MemoryPlan plan = state_of(parameter_count(model), largest_layer(model), transformer, request);
  append(plan.rows, request.inference
                        ? inference_activations(model, request.micro_batch, bytes)
                        : training_activations(model, request.micro_batch, bytes, transformer.recompute));
  add_workspace(plan, request.workspace);
  return plan;
}

MemoryPlan plan_state(std::int64_t parameters, const TransformerRequest& transformer,
                      const MemoryRequest& request) {
  MemoryPlan plan = state_of(parameters, 0, transformer, request);
  plan.notes.push_back(
      "the sizes of the layers are not known, so activations are not counted, nor the layers "
      "that stage 3 gathers");
  add_workspace(plan, request.workspace);
  return plan;
}

}  // namespace ringtape::planner
