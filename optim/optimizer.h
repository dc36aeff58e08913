#pragma once

#include <limits>

#include "core/memory.h"
#include "core/tensor.h"
#include "io/safetensors.h"
#include "kernels/arena.h"
#include "nn/arena.h"
#include "optim/parameter_group.h"

namespace ringtape {

/// The base of all optimizers. A step reads the gradients of the arena, divided by the loss scale and
/// multiplied by the clip factor of the last clip_grad_norm(), if there are any, and updates the values in a
/// few launches, for any number of parameters. A parameter without a gradient is skipped: no decay, no change
/// of its state. The whole step is skipped, and counted, if clip_grad_norm() with skip_nonfinite found a norm
/// that is not finite; with a loss scale the step always checks the norm. The learning rate is on the device,
/// so that a step never waits for the host.
///
/// In a sharded arena a rank has only the optimizer state of its shard and updates only its values. In stages
/// 1 and 2 the step ends by starting an all-gather of the values (or of their 16-bit copy). All ranks must
/// call step().
///
/// The arena, and with it the model, must outlive the optimizer.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates the parameters once. Throws Error if a backward() has added to the gradients since a
  /// clip_grad_norm() that may clip them or skip the update, if they are scaled by a LossScaler that is gone,
  /// and if another tensor was assigned to a parameter.
  void step();
  /// Calls the arena's zero_grad().
  void zero_grad() { arena_.zero_grad(); }

  double learning_rate() const { return learning_rate_; }
  ParameterArena& arena() const { return arena_; }
  /// The state after the steps so far, by PyTorch's names, for a checkpoint: f32 moments of the length of the
  /// arena (or of the rank's shard), and i64 step counts, one for each entry. The tensors share the
  /// optimizer's memory, so that loading into them restores the optimizer.
  virtual std::vector<NamedTensor> state() const = 0;

  /// The number of steps that the arena's skip flag has skipped: an i64 scalar on the device.
  const Tensor& skipped_updates() const { return skipped_updates_; }

  /// Throws Error unless `value` is finite and at least 0.
  void set_learning_rate(double value);

 protected:
  /// Throws Error for a learning rate or a weight decay that is not finite or is negative, and for a group
  /// that contains no parameter or sets an invalid value.
  Optimizer(ParameterArena& arena, double learning_rate, double weight_decay,
            const std::vector<ParameterGroup>& groups);

  /// Queues the launches of a step.
  virtual void launch_step(const ArenaView& view) = 0;
  /// Zeros with the length of the arena or of the rank's shard, for a moment or a momentum.
  Tensor make_state() const;
  /// In a sharded arena, and if ranks divide the model: replaces x, which has a row for each entry, by its
  /// sum over the ranks, queued on the device; a parameter that several ranks have counts once. Otherwise
  /// does nothing.
  void sum_over_ranks(const Tensor& x) const;
  /// Uninitialised memory for `count` objects of type T, for results that one launch of a step passes to the
  /// next. It counts as workspace: the analysis treats it as unwritten before the step.
  template <class T>
  Tensor make_scratch(std::int64_t count) const {
    const MemoryScope scope(MemoryCategory::workspace);
    return empty({count * static_cast<std::int64_t>(sizeof(T))}, DType::u8, arena_.device());
  }
  /// Tells a profiler the work of a step for each element of the arena or of the rank's shard: FLOPs, and
  /// bytes read and written. Adds the work of a loss scale, a clip factor and a 16-bit copy, if there are
  /// any.
  void add_step_work(const ArenaView& view, std::int64_t flops, std::int64_t bytes) const;
  /// The number of entries of the arena.
  std::int64_t parameter_count() const { return static_cast<std::int64_t>(arena_.entries().size()); }

 private:
  ParameterArena& arena_;
  double learning_rate_ = std::numeric_limits<double>::quiet_NaN();
  Tensor learning_rate_on_device_;
  Tensor options_;  // ParameterOptions of each entry
  Tensor skipped_updates_;
};

}  // namespace ringtape
