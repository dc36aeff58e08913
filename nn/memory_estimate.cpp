#include "nn/memory_estimate.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "core/error.h"
#include "kernels/arena.h"

namespace ringtape {
namespace {

struct Moment {
  std::size_t activations = 0, gradients = 0;
};

/// Steps through forward and backward, layer by layer, and finds the moment with the most memory. Layer i,
/// from 1 to the number of layers, has a result of h_[i] bytes; h_[0] is 0, as the inputs count as data.
class PeakOfUpdate {
 public:
  explicit PeakOfUpdate(const MlpMemoryProblem& problem)
      : layers_(problem.sizes.size() - 1),
        frozen_(static_cast<std::size_t>(problem.frozen)),
        segment_(static_cast<std::size_t>(problem.recompute)),
        loss_in_place_(problem.compute != DType::f16) {
    h_.push_back(0);
    for (std::size_t i = 1; i <= layers_; ++i) {
      h_.push_back(allocated_bytes(problem.micro_batch * problem.sizes[i], problem.compute));
    }
    if (segment_ == 0) segment_ = layers_;
  }

  Moment find() {
    forward_without_tape();
    std::size_t kept = 0;  // inputs of the segments so far
    for (std::size_t first = frozen_; first < layers_; first += segment_) {
      const std::size_t end = std::min(first + segment_, layers_);
      kept += h_[first];
      forward(first, end, kept, 0);
      if (end < layers_) forward(first, end, kept, h_[end]);  // again, in backward
      backward(first, end, kept);
    }
    return peak_;
  }

 private:
  void note(std::size_t activations, std::size_t gradients) {
    if (activations + gradients > peak_.activations + peak_.gradients) peak_ = {activations, gradients};
  }

  /// The frozen layers: a result exists until the next one is computed.
  void forward_without_tape() {
    for (std::size_t i = 1; i <= frozen_; ++i) {
      note(h_[i - 1] + h_[i], 0);
    }
  }

  /// Layers first + 1 to end.
  void forward(std::size_t first, std::size_t end, std::size_t kept, std::size_t gradients) {
    for (std::size_t i = first + 1; i <= end; ++i) {
      kept += h_[i];
      note(kept, gradients);
    }
  }

  /// During a layer's backward the gradients of its result and of its input are live. The logits' gradient
  /// overwrites the logits. In f16 it has its own memory instead, while the loss is computed; the loss's
  /// gradient is one block.
  void backward(std::size_t first, std::size_t end, std::size_t kept) {
    for (std::size_t i = first + 1; i < end; ++i) kept += h_[i];
    if (end == layers_) note(kept + h_[end], (loss_in_place_ ? 0 : h_[end]) + allocated_bytes(1, DType::f32));
    for (std::size_t i = end; i > first; --i) {
      const std::size_t of_input =
          i - 1 == frozen_ ? 0 : h_[i - 1];  // the first trained layer's is not needed
      if (i == layers_ && loss_in_place_) {
        note(kept + h_[i], of_input);
      } else {
        note(kept, h_[i] + of_input);
      }
      if (i - 1 > first) kept -= h_[i - 1];
    }
  }

  std::vector<std::size_t> h_;
  std::size_t layers_;
  std::size_t frozen_;
  std::size_t segment_;
  bool loss_in_place_;
  Moment peak_;
};

/// Elements of the weights and biases of layers `first` to `end` - 1.
std::vector<std::int64_t> mlp_parameter_sizes(const MlpMemoryProblem& problem, std::int64_t first,
                                              std::int64_t end) {
  std::vector<std::int64_t> sizes;
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
    sizes.push_back(problem.sizes[i] * problem.sizes[i + 1]);
    if (problem.with_bias) sizes.push_back(problem.sizes[i + 1]);
  }
  return sizes;
}

}  // namespace

std::size_t allocated_bytes(std::int64_t elements, DType dtype) {
  return round_up(static_cast<std::size_t>(elements) * size_of(dtype), 256);
}

BytesByCategory estimate_arena(const std::vector<std::int64_t>& trained,
                               const std::vector<std::int64_t>& frozen, std::int64_t state_per_parameter,
                               DType compute) {
  using enum MemoryCategory;
  const auto padded_sum = [](const std::vector<std::int64_t>& sizes) {
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes) sum += round_up(size, kTileAlignment);
    return sum;
  };
  const std::int64_t with_gradient = padded_sum(trained), all = with_gradient + padded_sum(frozen);
  BytesByCategory estimate;
  estimate[parameters] =
      allocated_bytes(all, DType::f32) + (compute == DType::f32 ? 0 : allocated_bytes(all, compute));
  estimate[gradients] = allocated_bytes(with_gradient, DType::f32);
  estimate[optimizer_state] = static_cast<std::size_t>(state_per_parameter) * estimate[gradients];
  return estimate;
}

BytesByCategory estimate_arena(const ArenaLayout& layout, int stage, std::int64_t state_per_parameter,
                               DType compute) {
  using enum MemoryCategory;
  const std::int64_t values = stage == 3 ? layout.shard : layout.elements;
  BytesByCategory estimate;
  estimate[parameters] =
      allocated_bytes(values, DType::f32) + (compute == DType::f32 ? 0 : allocated_bytes(values, compute));
  estimate[gradients] = allocated_bytes(stage >= 2 ? layout.shard : layout.elements, DType::f32);
  estimate[optimizer_state] =
      static_cast<std::size_t>(state_per_parameter) * allocated_bytes(layout.shard, DType::f32);
  return estimate;
}

BytesByCategory estimate_memory(const MlpMemoryProblem& problem) {
  check(problem.sizes.size() >= 2 && std::all_of(problem.sizes.begin(), problem.sizes.end(),
                                                 [](std::int64_t size) { return size > 0; }),
        "memory estimate: expected at least an input and an output size, each at least 1");
  check(problem.micro_batch > 0, "memory estimate: the micro-batch must be at least 1, found {}",
        problem.micro_batch);
  check(problem.state_per_parameter >= 0 && problem.recompute >= 0,
        "memory estimate: found {} values of state per parameter and segments of {} layers, expected at "
        "least 0",
        problem.state_per_parameter, problem.recompute);
  const auto layers = static_cast<std::int64_t>(problem.sizes.size()) - 1;
  check(problem.frozen >= 0 && problem.frozen <= layers,
        "memory estimate: {} of {} layers are frozen: expected 0 to {}", problem.frozen, layers, layers);
  check(problem.frozen == 0 || problem.recompute == 0,
        "memory estimate: frozen layers cannot be combined with recomputation");
  using enum MemoryCategory;
  check(problem.compute == DType::f32 || size_of(problem.compute) == 2,
        "memory estimate: a model computes in f32, bf16 or f16, not in {}", name_of(problem.compute));
  const Moment peak = PeakOfUpdate(problem).find();
  BytesByCategory estimate = estimate_arena(mlp_parameter_sizes(problem, problem.frozen, layers),
                                            mlp_parameter_sizes(problem, 0, problem.frozen),
                                            problem.state_per_parameter, problem.compute);
  estimate[activations] = peak.activations;
  estimate[activation_gradients] = peak.gradients;
  estimate[data] = allocated_bytes(problem.micro_batch * problem.sizes[0], problem.compute);
  return estimate;
}

}  // namespace ringtape
