#pragma once

#include <cstdint>
#include <memory>

#include "dist/comm_hook.h"
#include "dist/mesh.h"
#include "nn/arena.h"
#include "optim/optimizer.h"
#include "train/options.h"

/// The parts of a training run, made from its options.
namespace ringtape {

/// The optimizer, with the options' settings or, where they have no value, the defaults of its kind.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterArena& arena);

/// The number of f32 values that the optimizer keeps for each element of a parameter.
std::int64_t state_per_parameter(const OptimizerOptions& options);

/// The dtype that the model computes in on this device: f32, bf16 or f16.
DType compute_dtype(const PrecisionOptions& options, Device device);

/// The sizes that the options set; mesh_of() (dist/mesh.h) computes the size of the data dimension.
MeshSizes mesh_sizes(const DistributionOptions& options);

/// The sizes of gradient buckets; the first has at most 1 MiB.
BucketSizes bucket_sizes(const DistributionOptions& options);

/// The hook by which `ranks` ranks average the arena's buckets; null for the default, an all-reduce in f32.
/// The arena must outlive it.
std::shared_ptr<CommHook> make_comm_hook(const DistributionOptions& options, const ParameterArena& arena,
                                         int ranks);

/// The sharding of the arena on rank `rank` of the `world_size` ranks that average gradients. Throws Error
/// for ZeRO stages 2 and 3 without overlap.
ArenaSharding make_sharding(const DistributionOptions& options, int rank, int world_size);

}  // namespace ringtape
