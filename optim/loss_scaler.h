#pragma once

#include <vector>

#include "core/tensor.h"
#include "io/safetensors.h"
#include "nn/arena.h"

namespace ringtape {

/// The defaults are those of torch.amp.GradScaler, which has no floor.
struct LossScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int32_t growth_interval = 2000;
  double floor = 1;
  /// The number of ranks whose gradients are averaged. Each divides its losses by N / world_size
  /// (AccumulationWindow), so that before averaging its gradients are world_size times as large as on one
  /// rank. Backward therefore starts from the scale over world_size, so that gradients of activations
  /// overflow only where they would on one rank.
  int world_size = 1;
};

/// Dynamic loss scaling for f16 (Micikevicius et al., "Mixed precision training", 2018). The smallest
/// positive f16 is 6e-8, and many gradients of activations are smaller. So backward starts from a large
/// factor instead of 1, and the optimizer's step divides by it when it reads the gradients. If a gradient
/// overflows, the whole update is skipped and the factor is halved; after enough steps without an overflow it
/// is doubled. bf16 has the range of f32 and needs none of this.
///
/// Its state is on the device, so that a step does not wait for the host:
///
///   LossScaler scaler(arena);
///   ...
///   scaler.backward(loss);            // once for each micro-batch, in place of loss.backward()
///   clip_grad_norm(arena, max_norm);  // to clip: by the norm of the unscaled gradients
///   optimizer.step();                 // on overflow skips the update and counts it
///   scaler.update();
class LossScaler {
 public:
  /// During the scaler's lifetime the gradients in the arena are scaled: clip_grad_norm() computes the norm
  /// of the unscaled gradients, and steps divide by the factor, so every backward must be the scaler's: a
  /// backward() without a gradient throws Error. Keep the scaler until step(), which throws Error otherwise.
  /// The arena must outlive the scaler. Throws Error for an arena that already has a scaler or a gradient,
  /// and unless 0 < floor <= initial_scale, growth_factor > 1, 0 < backoff_factor < 1, growth_interval >= 1
  /// and world_size >= 1, all finite and in f32, in which the kernel computes.
  explicit LossScaler(ParameterArena& arena, const LossScalerOptions& options = {});
  ~LossScaler() { arena_.set_loss_scale(nullptr); }
  LossScaler(const LossScaler&) = delete;
  LossScaler& operator=(const LossScaler&) = delete;

  /// The scale: an f32 scalar on the device. The factor of backward is the scale over world_size.
  const Tensor& scale() const { return scale_; }
  /// The tape's backward from this scalar f32 loss, with all gradients multiplied by the factor.
  void backward(const Tensor& loss) const;
  /// Call it after each optimizer step: lowers the scale if the norm of the step's gradients was not finite,
  /// else may raise it.
  void update();

  /// Throws Error if each of the last kOverflowsToGiveUp steps overflowed with the scale at its floor. Waits
  /// for the device: call it where the log is read anyway.
  void check_can_go_on() const;
  static constexpr std::int32_t kOverflowsToGiveUp = 5;

  /// "scale", "growth_tracker" and "overflows_at_floor", for a checkpoint. The tensors share the scaler's
  /// memory, so that loading into them restores the scaler; call loaded() afterwards.
  std::vector<NamedTensor> state() const;
  void loaded() { divide_by_ranks(); }

 private:
  void divide_by_ranks();

  ParameterArena& arena_;
  LossScalerOptions options_;
  Tensor scale_;
  Tensor factor_;  // scale_ itself for one rank
  Tensor growth_tracker_;
  Tensor overflows_at_floor_;
};

}  // namespace ringtape
