#pragma once

#include <vector>

#include "dist/comm_hook.h"
#include "io/safetensors.h"
#include "nn/arena.h"

namespace ringtape {

/// Sends gradients as bf16 or f16, half the bytes, and restores them to f32.
///
/// bf16 has the range of f32; each element is rounded by at most 2^-8 of its value. f16 rounds by at most
/// 2^-11, but its range is small. So with R ranks a bucket is first multiplied by the power of two that takes
/// R times its largest element over all ranks, plus the largest residual (see below), to between 2^14 and
/// 2^15: a sum cannot overflow (at 65,504), and elements down to 2^-28 R of the largest keep all 11 bits. A
/// bucket with an infinity or NaN on any rank has one on all ranks afterwards. The largest element must be
/// known first: its reduction is in flight while backward continues, and the bucket is sent when the next one
/// is launched, or in wait().
///
/// The communicator adds in f32 and rounds after each addition. On CUDA no operation waits for the host.
///
/// With error feedback, the rounding error of this rank's gradients (the residual) is kept and added to the
/// gradients of the next reduction (Seide et al., "1-bit stochastic gradient descent and its application to
/// data-parallel distributed training of speech DNNs", 2014): over many updates no part of a gradient is
/// lost. The residuals take as much memory as all gradients in f32, and belong in checkpoints: see
/// gather_residuals(). Errors of the additions are not fed back. A residual has the loss scale of its own
/// backward: with a scale that changes (LossScaler) it would be added with the wrong size, so error feedback
/// is for training without a loss scale.
class CompressHook : public CommHook {
 public:
  /// `dtype`: bf16 or f16, Error otherwise. The arena must outlive the hook.
  CompressHook(const ParameterArena& arena, DType dtype, bool error_feedback);
  void launch(Communicator& comm, const Tensor& bucket) override;
  void wait(Communicator& comm) override;

  /// With error feedback: the residuals of all ranks, on the host of rank 0 (empty on other ranks), for a
  /// checkpoint: for each parameter "residual.NAME", f32 [ranks, elements]. All ranks must call it, between
  /// two windows.
  std::vector<NamedTensor> gather_residuals(Communicator& comm) const;
  /// Distributes the residuals that gather_residuals() returned on rank 0, in this run or an earlier one.
  /// With the same number of ranks each continues with its own residuals, bit for bit. With another number
  /// each gets the mean of all: a mean gradient contains the mean of the residuals, which is preserved. All
  /// ranks must call it. Throws Error on rank 0 where a parameter is missing or has another number of
  /// elements.
  void scatter_residuals(Communicator& comm, const std::vector<NamedTensor>& residuals);

 private:
  struct Sent {
    Tensor bucket;
    Tensor largest;  ///< of the bucket over all ranks, and of its residual, f32 [1]; undefined for bf16
    Tensor compressed;
    Work work;  ///< the all-reduce of `largest` (max), then of `compressed` (mean)
  };
  /// This bucket's residuals; null without error feedback.
  float* residual_of(const Tensor& bucket) const;
  void send(Communicator& comm, Sent& sent);
  void send_measured(Communicator& comm);

  const ParameterArena& arena_;
  Device device_;
  DType dtype_;
  Tensor residual_;  // [size of the arena]; undefined without error feedback
  std::vector<Sent> sent_;
  bool last_waits_ = false;  // the last of sent_ is not sent yet: its largest element is being reduced
};

}  // namespace ringtape
