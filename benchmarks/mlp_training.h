#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/ops.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"

namespace ringtape {

/// An MLP that Adam trains on the same random samples in each update.
class MlpTraining {
 public:
  MlpTraining(const std::vector<std::int64_t>& sizes, std::int64_t samples, Device device,
              DType dtype = DType::f32)
      : model_((manual_seed(1), make_mlp(sizes))), arena_(*model_, device, dtype), adam_(arena_) {
    if (dtype == DType::f16) scaler_.emplace(arena_);
    const MemoryScope scope(MemoryCategory::data);
    x_ = randn({samples, sizes.front()}, dtype, device);
    y_ = to(rand({samples}, DType::f32, device, 0, static_cast<double>(sizes.back())), DType::i64);
  }

  /// Forward, cross-entropy and backward, once for each micro-batch; gradient-norm clipping; Adam.
  void update(std::int64_t micro_batches = 1, const CrossEntropyOptions& options = {}) {
    arena_.zero_grad();
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      const Tensor loss = cross_entropy((*model_)(x_), y_, options);
      scaler_ ? scaler_->backward(loss) : loss.backward();
    }
    clip_grad_norm(arena_, 1.0);
    adam_.step();
    if (scaler_) scaler_->update();
  }

  Sequential& model() { return *model_; }
  const ParameterArena& arena() const { return arena_; }

 private:
  std::shared_ptr<Sequential> model_;
  ParameterArena arena_;
  Adam adam_;
  std::optional<LossScaler> scaler_;
  Tensor x_, y_;
};

}  // namespace ringtape
