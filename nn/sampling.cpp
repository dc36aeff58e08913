#include "nn/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/ops.h"
#include "core/error.h"
#include "core/philox.h"

namespace ringtape {

TokenSampler::TokenSampler(const SamplingOptions& options) : options_(options) {
  check(std::isfinite(options.temperature) && options.temperature >= 0,
        "the temperature must be finite and at least 0, found {}", options.temperature);
  check(options.top_k >= 0, "top-k must be at least 0, found {}", options.top_k);
  check(options.top_p > 0 && options.top_p <= 1, "top-p must be above 0 and at most 1, found {}",
        options.top_p);
}

/// Keeps the most likely tokens of order_ until their weights add up to `wanted`; a heap finds them without
/// sorting the others. Returns the sum of their weights.
template <class Weight, class Likelier>
double TokenSampler::keep_likeliest(double wanted, const Weight& weight, const Likelier& likelier) {
  const auto last_is_top = [&](std::int32_t a, std::int32_t b) { return likelier(b, a); };
  std::make_heap(order_.begin(), order_.end(), last_is_top);
  auto end = order_.end();
  double reached = 0;
  while (end != order_.begin() && reached < wanted) {
    std::pop_heap(order_.begin(), end, last_is_top);
    reached += weight(*--end);
  }
  order_.erase(order_.begin(), end);
  return reached;
}

std::int32_t TokenSampler::operator()(std::span<const float> logits) {
  check(!logits.empty(), "TokenSampler: there are no logits");
  for (const float logit : logits) {
    check(!std::isnan(logit) && logit < INFINITY, "TokenSampler: a logit is {}", logit);
  }
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const std::int32_t likeliest = *std::min_element(order_.begin(), order_.end(), likelier);
  check(logits[likeliest] > -INFINITY, "TokenSampler: all logits are -inf");
  if (options_.temperature == 0) return likeliest;

  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < order_.size()) {
    std::nth_element(order_.begin(), order_.begin() + (options_.top_k - 1), order_.end(), likelier);
    order_.resize(static_cast<std::size_t>(options_.top_k));
  }
  const double largest = logits[likeliest];
  const auto weight = [&](std::int32_t token) {
    return std::exp((logits[token] - largest) / options_.temperature);
  };
  double sum = 0;
  for (const std::int32_t token : order_) sum += weight(token);
  if (options_.top_p < 1) sum = keep_likeliest(options_.top_p * sum, weight, likelier);
  const on_cpu::Philox4 bits = on_cpu::philox4x32_10(options_.seed, draws_++, 0);
  double left = (bits.x * 0x1p-64 + bits.y * 0x1p-32) * sum;
  for (const std::int32_t token : order_) {
    left -= weight(token);
    if (left < 0) return token;
  }
  return likeliest;  // rounding errors have left something
}

void check_prompt(const GPT& model, const std::vector<std::int32_t>& prompt) {
  const std::int64_t context = model.options().context;
  check(!prompt.empty(), "generate: the prompt has no tokens");
  check(static_cast<std::int64_t>(prompt.size()) <= context,
        "generate: the prompt has {} tokens, more than the context of {}", prompt.size(), context);
}

void generate(GPT& model, const std::vector<std::int32_t>& prompt, const GenerationOptions& options,
              const std::function<bool(std::int32_t token)>& emit) {
  check_prompt(model, prompt);
  const std::int64_t context = model.options().context, vocabulary = model.options().vocabulary;
  check(!model.is_training(), "generate: the model is in training mode: call eval() first");
  TokenSampler sampler(options.sampling);
  const Device device = model.parameter("wte.weight").device();
  const auto known = static_cast<std::int64_t>(prompt.size());
  KVCache cache = model.make_cache(1, std::min(context, known + std::max<std::int64_t>(options.tokens, 0)));
  std::vector<std::int32_t> text = prompt;
  std::vector<std::int32_t> unseen = prompt;  // tokens that are not in the cache
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    if (cache.length() + static_cast<std::int64_t>(unseen.size()) > context) {
      cache.truncate(0);
      unseen.assign(text.end() - std::max<std::int64_t>(context / 2, 1), text.end());
    }
    const Tensor tokens = to(from_vector(unseen, {1, static_cast<std::int64_t>(unseen.size())}), device);
    const Tensor logits = to(model.next(tokens, cache), DType::f32);
    check_indices(device);
    std::vector<float> values = logits.to_vector<float>();
    if (options.vocabulary > 0)
      values.resize(static_cast<std::size_t>(std::min(options.vocabulary, vocabulary)));
    const std::int32_t token = sampler(values);
    text.push_back(token);
    unseen = {token};
    if (!emit(token)) return;
  }
}

}  // namespace ringtape
