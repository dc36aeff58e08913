#pragma once

#include <cstdint>
#include <memory>

#include "dist/comm_hook.h"
#include "dist/mesh.h"
#include "nn/arena.h"
#include "optim/optimizer.h"
#include "train/options.h"

/// The parts of a training, made from the options.
namespace ringtape {

/// The optimizer, at the options' learning rate or, without one, at the kind's default.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterArena& arena);

/// f32 values that the optimizer keeps for each parameter.
std::int64_t state_per_parameter(const OptimizerOptions& options);

/// The dtype that the model computes in on this device: f32, bf16 or f16.
DType compute_dtype(const PrecisionOptions& options, Device device);

/// The mesh that the options ask for; mesh_of() (dist/mesh.h) gives data the ranks that are left.
MeshSizes mesh_sizes(const DistributionOptions& options);

BucketSizes bucket_sizes(const DistributionOptions& options);

/// How `ranks` ranks average the arena's buckets; null for the default. The arena must outlive it.
std::shared_ptr<CommHook> make_comm_hook(const DistributionOptions& options, const ParameterArena& arena,
                                         int ranks);

/// The sharding of the arena for rank `rank` of `world_size`. Throws Error for ZeRO stages 2 and 3 without
/// overlap.
ArenaSharding make_sharding(const DistributionOptions& options, int rank, int world_size);

}  // namespace ringtape
