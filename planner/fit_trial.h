#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "nn/transformer.h"
#include "optim/registry.h"
#include "planner/fit.h"

namespace ringtape::planner {

/// An MLP or a GPT that is trained for a few updates to test whether it fits.
struct TrialModel {
  std::vector<std::int64_t> sizes;                            ///< of an MLP's layers
  std::optional<TransformerOptions> gpt = {};                 ///< instead of an MLP; a sample is a sequence
  const OptimizerKind* optimizer = &optimizer_named("adam");  ///< with the defaults in optim/registry.h
  DType compute = DType::f32;
  std::int64_t recompute = 0;  ///< layers in a segment
};

/// Caps the memory of a device during its lifetime.
class MemoryCap {
 public:
  MemoryCap(Device device, std::int64_t bytes);  ///< 0: no cap
  ~MemoryCap();
  MemoryCap(const MemoryCap&) = delete;
  MemoryCap& operator=(const MemoryCap&) = delete;

 private:
  Device device_;
};

/// Makes the model, its arena and optimizer, runs one update on random data to measure the peak memory, and
/// then updates for the given seconds, at least one, to measure the throughput. All memory is freed when this
/// returns, also after running out of memory, which is a result and not an error.
FitTrial try_micro_batch(const TrialModel& model, Device device, std::int64_t micro_batch,
                         double seconds = 0.1);

}  // namespace ringtape::planner
