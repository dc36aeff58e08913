#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/arena.h"
#include "nn/layers.h"

/// The model of the tasks' real runs.
namespace ringtape::tasks {

/// A network of 8-32-4 and 60 samples of it, the same in each object.
struct SmallModel {
  static constexpr std::int64_t kSamples = 60, kFeatures = 8, kClasses = 4;

  SmallModel();
  std::span<float> values();
  std::span<float> gradients();
  /// The gradient of the whole batch, in place of the one before. Returns the loss.
  double backward();
  /// The logits and the labels of some samples.
  Tensor logits(std::int64_t first, std::int64_t count);
  Tensor labels(std::int64_t first, std::int64_t count) const;

  std::shared_ptr<Sequential> model;
  ParameterArena arena;

 private:
  Tensor x_, y_;
};

/// Prints the losses of two training runs at five of their steps. Throws Error where they differ by more than
/// 1e-3: the same formulas in f32 differ by rounding only.
void show_losses(const std::string& name, const std::vector<double>& losses, const std::string& other_name,
                 const std::vector<double>& other_losses);

/// The norm of the difference over the norm of `expected`.
double relative_distance(std::span<const float> found, std::span<const float> expected);

}  // namespace ringtape::tasks
