#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "nn/context_part.h"
#include "nn/gpt.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "tests/support/catch.h"
#include "tests/support/check_build.h"

// Models for the tests of parallel training, and one-rank references.
namespace ringtape::test {

using Layers = std::shared_ptr<LayerFactory>;
using Values = std::map<std::string, std::vector<double>>;

inline constexpr std::int64_t kBatch = 3, kTokens = 12, kVocabulary = 33;

inline TransformerOptions gpt_options() {
  TransformerOptions options;
  options.vocabulary = kVocabulary;
  options.context = 14;  // two positions are not used
  options.layers = 2;
  options.heads = 12;
  options.width = 48;
  options.hidden = 50;
  return options;
}

/// Queries of 24 heads, keys and values of 12.
inline TransformerOptions llama() {
  TransformerOptions options = llama_options(gpt_options());
  options.heads = 24;
  options.kv_heads = 12;
  return options;
}

inline std::vector<std::int64_t> tokens_from(std::int64_t first) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < kBatch * kTokens; ++i) tokens.push_back((first + i * i) % kVocabulary);
  return tokens;
}

inline TransformerOptions with_dropout(TransformerOptions options) {
  options.dropout = 0.3;
  return options;
}

inline const Layers& one_rank() {
  static const auto layers = std::make_shared<LayerFactory>();
  return layers;
}

/// The values of these tokens of x [batch, tokens, ..].
template <class T>
std::vector<T> own_of(const std::vector<T>& x, std::int64_t batch, std::int64_t tokens,
                      const std::vector<TokenRun>& runs) {
  const std::int64_t width = std::ssize(x) / (batch * tokens);
  std::vector<T> own;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (const TokenRun& run : runs) {
      const auto first = x.begin() + (b * tokens + run.first) * width;
      own.insert(own.end(), first, first + run.count * width);
    }
  }
  return own;
}

/// Converts the parameters in place; they remain leaves and shards.
inline void convert(Module& model, DType dtype, Device device) {
  for (const NamedParameter& parameter : model.named_parameters()) {
    Tensor& tensor = *parameter.tensor;
    const auto shard = tensor.autograd->shard;
    tensor = to(to(tensor.detach(), dtype), device).set_requires_grad(true);
    tensor.autograd->shard = shard;
  }
}

/// Adam (Kingma and Ba, 2015), which the library has in f32 only. Its eps is large compared with
/// rounding: otherwise a parameter whose gradient is mathematically zero, such as the bias of keys, would
/// take whole steps in the direction of its rounding errors.
class AdamInF64 {
 public:
  explicit AdamInF64(Module& model) : model_(model) {}

  void step() {
    constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-3;
    ++steps_;
    for (const NamedParameter& parameter : model_.named_parameters()) {
      const std::vector<double> gradient = parameter.tensor->grad().to_doubles();
      std::vector<double>&first = first_[parameter.name], &second = second_[parameter.name];
      first.resize(gradient.size());
      second.resize(gradient.size());
      auto* const values = parameter.tensor->data<double>();
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        first[i] += (1 - kBeta1) * (gradient[i] - first[i]);
        second[i] += (1 - kBeta2) * (gradient[i] * gradient[i] - second[i]);
        const double mean = first[i] / (1 - std::pow(kBeta1, steps_));
        values[i] -= kRate * mean / (std::sqrt(second[i] / (1 - std::pow(kBeta2, steps_))) + kEps);
      }
      parameter.tensor->bump_version();
      parameter.tensor->autograd->grad_written = false;
    }
  }

 private:
  Module& model_;
  Values first_, second_;  // moments
  int steps_ = 0;
};

/// The largest difference over all tensors, relative to the largest value of each; infinity where a value is
/// NaN.
inline double difference(const Values& found, const Values& expected) {
  REQUIRE(found.size() == expected.size());
  REQUIRE_FALSE(expected.empty());
  double result = 0;
  for (const auto& [name, values] : expected) {
    const std::vector<double>& own = found.at(name);
    REQUIRE(own.size() == values.size());
    REQUIRE_FALSE(values.empty());
    REQUIRE(std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }));
    double largest = 0, off = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      const double error = std::abs(own[i] - values[i]);
      if (!(error <= off)) off = std::isnan(error) ? INFINITY : error;
    }
    result = std::max(result, off / std::max(largest, 1e-300));
  }
  return result;
}

/// The same for one tensor.
inline double largest_difference(const std::vector<double>& found, const std::vector<double>& expected) {
  return difference({{"", found}}, {{"", expected}});
}

/// Trains the whole model of one arena and the divided one of the other, each with an optimizer of its own,
/// by functions that run a backward and return the loss: losses and gradient norms agree in each step.
template <class MakeOptimizer, class Backward, class OwnBackward>
void train_both(ParameterArena& arena, ParameterArena& own_arena, const MakeOptimizer& optimizer_of,
                const Backward& backward, const OwnBackward& own_backward) {
  const auto optimizer = optimizer_of(arena), own_optimizer = optimizer_of(own_arena);
  for (int step = 0; step < repetitions(20); ++step) {
    const double expected = backward(), found = own_backward();
    const double norm_type = step % 3 == 0 ? 2 : step % 3 == 1 ? 1 : INFINITY;
    const double norm = clip_grad_norm(arena, 0.5, {.norm_type = norm_type}).item();
    const double own_norm = clip_grad_norm(own_arena, 0.5, {.norm_type = norm_type}).item();
    CHECK_THAT(found, Catch::Matchers::WithinRel(expected, 1e-4));
    CHECK_THAT(own_norm, Catch::Matchers::WithinRel(norm, 1e-4));
    for (Optimizer* const each : {optimizer.get(), own_optimizer.get()}) {
      each->step();
      each->zero_grad();
    }
  }
}

}  // namespace ringtape::test
