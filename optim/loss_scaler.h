#pragma once

#include <vector>

#include "core/safetensors.h"
#include "core/tensor.h"
#include "nn/arena.h"

namespace ringtape {

/// The defaults are those of torch.amp.GradScaler, which has no floor.
struct LossScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int32_t growth_interval = 2000;
  double floor = 1;
};

/// Dynamic loss scaling for f16 (Micikevicius et al., "Mixed precision training", 2018). Below 6e-8 an f16 is
/// 0, and many gradients of activations are smaller; so backward starts from a large factor instead of 1, and
/// the optimizer's step divides by it while it reads the gradients. Where a gradient overflows, the whole
/// update is skipped and the factor halved; after enough steps without an overflow it is doubled. bf16 has
/// the range of f32 and needs none of this.
///
/// All of it lives on the device, so that a step does not wait for the host:
///
///   scaler.backward(loss);  // once for each micro-batch
///   clip_grad_norm(arena, max_norm, {.skip_nonfinite = true, .loss_scale = scaler.factor()});
///   optimizer.step();       // counts an overflow in skipped_updates(), and changes nothing
///   scaler.update(arena);
class LossScaler {
 public:
  /// Throws Error unless 0 < floor <= initial_scale, growth_factor > 1, 0 < backoff_factor < 1, and
  /// growth_interval >= 1, all finite.
  explicit LossScaler(Device device, const LossScalerOptions& options = {});

  /// The factor: an f32 scalar on the device.
  const Tensor& scale() const { return scale_; }
  /// Its address, for clip_grad_norm(), which finds the norm of the true gradients and the overflows.
  const float* factor() const { return scale_.data<float>(); }
  /// The tape's backward from this scalar f32 loss, with all gradients multiplied by the factor.
  void backward(const Tensor& loss) const;
  /// To be called after each optimizer step: moves the factor by whether the norm that clip_grad_norm() left
  /// in the arena was finite.
  void update(const ParameterArena& arena);

  /// Throws Error when the last kOverflowsToGiveUp steps have all overflowed with the factor at its floor: no
  /// smaller one will help. Waits for the device: call it where the log is read anyway.
  void check_can_go_on() const;
  static constexpr std::int32_t kOverflowsToGiveUp = 5;

  /// "scale", "growth_tracker" and "overflows_at_floor", for a checkpoint. The tensors share the scaler's
  /// memory, so that loading into them restores.
  std::vector<NamedTensor> state() const;

 private:
  LossScalerOptions options_;
  Tensor scale_;
  Tensor growth_tracker_;
  Tensor overflows_at_floor_;
};

}  // namespace ringtape
