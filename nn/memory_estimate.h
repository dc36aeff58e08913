#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/memory.h"
#include "nn/shard_layout.h"

namespace ringtape {

/// The parameters of the memory formula: training of a multilayer perceptron with cross-entropy on one
/// device, or inference.
struct MlpMemoryProblem {
  std::vector<std::int64_t> sizes;       ///< of the layers, input first, as for make_mlp()
  std::int64_t micro_batch = 1;          ///< samples that go through the network at a time
  std::int64_t state_per_parameter = 2;  ///< f32 values that the optimizer keeps: Adam 2
  std::int64_t recompute = 0;            ///< layers in a segment whose activations are recomputed; 0: none
  DType compute = DType::f32;            ///< of inputs, activations and their gradients: f32, bf16 or f16
  bool with_bias = true;                 ///< layers have biases
  std::int64_t frozen = 0;               ///< number of first layers that are not trained; all: inference
};

/// Bytes by formula, in the categories of the allocator, at the peak of an update, with each allocation
/// rounded up to 256 bytes. In f32, for P parameters and a micro-batch of b samples:
///
///   parameters       4 P
///   gradients        4 P    for any number of micro-batches: they add up in place
///   optimizer state  4 P    for each value per parameter
///   data             4 b inputs
///   activations      4 b (h_1 + ... + h_n + c): the tape keeps the result of each of the n hidden layers
///                    after ReLU, h_i neurons wide; the gradient of the c logits overwrites them
///   their gradients  4 b h_n more, where the last layer turns its result's gradient into its input's;
///                    where a layer in the middle is wide, the peak may be at that layer instead
///
/// With recomputation in segments of k layers the tape keeps the result of each k-th layer, and the results
/// of one segment exist at a time: for n equal layers about n / k + k results, fewest for k = sqrt(n).
///
/// In 16 bits the parameters have a copy of 2 P more, and data, activations and their gradients take half the
/// bytes. In f16 the gradient of the logits has its own memory.
///
/// Frozen layers have no gradients and no optimizer state, and their activations are freed once the next
/// layer's are computed, except for the result that the first trained layer reads. With all layers frozen
/// this is inference.
///
/// Not counted: workspace of kernels, and values smaller than the rounding (loss, learning rate, step
/// counts). Throws Error for fewer than two sizes, sizes or a micro-batch below 1, negative numbers, more
/// frozen layers than there are, frozen layers together with recomputation, and other dtypes.
BytesByCategory estimate_memory(const MlpMemoryProblem& problem);

/// The part of an estimate that does not depend on the batch: parameters, gradients and optimizer state of an
/// arena with parameters of these sizes, in elements.
BytesByCategory estimate_arena(const std::vector<std::int64_t>& trained,
                               const std::vector<std::int64_t>& frozen, std::int64_t state_per_parameter,
                               DType compute);

/// The same for an arena sharded by ZeRO. While a backward runs there are in addition, from stage 2 on,
/// buckets of gradients (max_of_neighbours()), and in stage 3 units of parameters.
BytesByCategory estimate_arena(const ArenaLayout& layout, int stage, std::int64_t state_per_parameter,
                               DType compute);

/// Bytes of one allocation: rounded up to 256, as by the allocator.
std::size_t allocated_bytes(std::int64_t elements, DType dtype);

}  // namespace ringtape
