#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringtape::planner {

/// A row of a memory plan.
struct MemoryRow {
  std::string name;
  std::int64_t bytes = 0;  ///< on one rank
  std::string how;         ///< the arithmetic
};

/// The part of a model's memory that does not depend on the batch.
struct ModelState {
  std::int64_t parameters = 0;     ///< elements, including frozen ones
  std::int64_t trained = 0;        ///< elements with a gradient; 0: inference
  std::int64_t compute_bytes = 4;  ///< of an element of the dtype that the model computes in: 4 or 2
  std::int64_t gradient_bytes = 4;
  std::int64_t state_per_parameter = 2;  ///< f32 values that the optimizer keeps: Adam 2
  bool frozen_in_f32 = false;            ///< frozen values are in f32 too, as in our arena
  std::int64_t block = 1;                ///< bytes of which allocations are multiples: 256 for our allocator
  std::int64_t largest_layer = 0;        ///< elements; stage 3 gathers two such layers at a time
};

/// How the state is sharded over data-parallel ranks (Rajbhandari et al., "ZeRO: Memory optimizations toward
/// training trillion parameter models", 2020, arXiv:1910.02054). Stage 0: not sharded; 1: optimizer state,
/// and in 16 bits the master weights; 2: gradients too; 3: also the parameters in the compute dtype.
struct Sharding {
  int zero_stage = 0;
  std::int64_t ranks = 1;
  std::int64_t bucket_bytes = 25 << 20;  ///< bytes of gradients that are reduced together
};

/// Rows for parameters, low-precision copies, gradients, optimizer state and buckets. With 16-bit gradients,
/// Adam and all parameters trained they add up to the ZeRO paper's 16 bytes for each parameter: 2 + 2 + 12,
/// of which 4 are the master weights. Sharded sizes are rounded up. Stages 0 and 1 reduce gradients in place;
/// stage 2 has two buckets in addition to its own gradients; stage 3 gathers the parameters of one layer
/// while it computes another. Throws Error for a stage outside 0 to 3 and for numbers out of range.
std::vector<MemoryRow> state_memory(const ModelState& model, const Sharding& sharding);

}  // namespace ringtape::planner
