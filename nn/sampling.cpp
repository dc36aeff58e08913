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

std::int32_t TokenSampler::operator()(std::span<const float> logits) {
  check(!logits.empty(), "TokenSampler: there are no logits");
  for (const float logit : logits) check(!std::isnan(logit), "TokenSampler: a logit is NaN");
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (options_.temperature == 0) return *std::min_element(order.begin(), order.end(), likelier);

  const bool sorts = options_.top_k > 0 || options_.top_p < 1;
  const std::size_t kept =
      options_.top_k > 0 ? std::min<std::size_t>(order.size(), options_.top_k) : order.size();
  if (sorts)
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                      likelier);
  order.resize(kept);
  const double largest = logits[*std::min_element(order.begin(), order.end(), likelier)];
  std::vector<double> weights;
  for (const std::int32_t token : order) {
    weights.push_back(std::exp((logits[token] - largest) / options_.temperature));
  }
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options_.top_p < 1) {
    double reached = 0;
    std::size_t count = 0;
    while (count < weights.size() && reached < options_.top_p * sum) reached += weights[count++];
    weights.resize(count);
    sum = reached;
  }
  const on_cpu::Philox4 bits = on_cpu::philox4x32_10(options_.seed, draws_++, 0);
  double left = (bits.x * 0x1p-64 + bits.y * 0x1p-32) * sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[weights.size() - 1];
}

void generate(GPT& model, const std::vector<std::int32_t>& prompt, const GenerationOptions& options,
              const std::function<bool(std::int32_t token)>& emit) {
  const std::int64_t context = model.options().context;
  check(!prompt.empty(), "generate: the prompt has no tokens");
  check(static_cast<std::int64_t>(prompt.size()) <= context,
        "generate: the prompt has {} tokens, more than the context of {}", prompt.size(), context);
  check(!model.is_training(), "generate: the model is in training mode: call eval() first");
  TokenSampler sampler(options.sampling);
  const Tensor& weight = model.parameter("wte.weight");
  const bool has_copy = weight.autograd != nullptr && weight.autograd->low_precision.defined();
  KVCache cache(model.options(), 1, context,
                has_copy ? weight.autograd->low_precision.dtype() : weight.dtype(), weight.device());
  std::vector<std::int32_t> text = prompt;
  std::vector<std::int32_t> unseen = prompt;  // tokens that are not in the cache
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    if (cache.length() + static_cast<std::int64_t>(unseen.size()) > context) {
      cache.truncate(0);
      unseen.assign(text.end() - std::max<std::int64_t>(context / 2, 1), text.end());
    }
    const Tensor tokens =
        to(from_vector(unseen, {1, static_cast<std::int64_t>(unseen.size())}), weight.device());
    const Tensor logits = to(model.next(tokens, cache), DType::f32);
    check_indices(weight.device());
    const std::int32_t token = sampler(logits.to_vector<float>());
    text.push_back(token);
    unseen = {token};
    if (!emit(token)) return;
  }
}

}  // namespace ringtape
