#include "lessons/tasks/model.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/ops.h"
#include "lessons/tasks/tests.h"

namespace ringtape::tasks {
namespace {

std::span<float> elements_of(const Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.elements())};
}

std::vector<std::int64_t> some_labels() {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < SmallModel::kSamples; ++i) labels.push_back(i * i % SmallModel::kClasses);
  return labels;
}

}  // namespace

SmallModel::SmallModel()
    : model((manual_seed(0), make_mlp({kFeatures, 32, kClasses}))),
      arena(*model, Device()),
      x_(randn({kSamples, kFeatures})),
      y_(from_vector(some_labels(), {kSamples})) {}

std::span<float> SmallModel::values() {
  return elements_of(arena.values());
}

std::span<float> SmallModel::gradients() {
  return elements_of(arena.gradients());
}

Tensor SmallModel::logits(std::int64_t first, std::int64_t count) {
  return (*model)(x_.alias({count, kFeatures}, first * kFeatures));
}

Tensor SmallModel::labels(std::int64_t first, std::int64_t count) const {
  return y_.alias({count}, first);
}

double SmallModel::backward() {
  arena.zero_grad();
  const Tensor loss = cross_entropy(logits(0, kSamples), labels(0, kSamples));
  loss.backward();
  return loss.item();
}

void show_losses(const std::string& name, const std::vector<double>& losses, const std::string& other_name,
                 const std::vector<double>& other_losses) {
  fmt::print("\nA training run with {} beside {}:\n  step   {:>14}   {:>14}\n", name, other_name, name,
             other_name);
  for (std::size_t k = 0; k <= 4; ++k) {
    const std::size_t step = k * (losses.size() - 1) / 4;
    fmt::print("  {:>4}   {:>14.6f}   {:>14.6f}\n", step + 1, losses[step], other_losses[step]);
  }
  for (std::size_t step = 0; step < losses.size(); ++step) {
    if (!close(losses[step], other_losses[step], 1e-3)) {
      wrong("the loss of step {} is {:.6f}, with {} {:.6f}", step + 1, losses[step], other_name,
            other_losses[step]);
    }
  }
}

double relative_distance(std::span<const float> found, std::span<const float> expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(found[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace ringtape::tasks
